"""Reads CustomResourceDefinitions from files, directories, stdin or a cluster.

Errors name the file and the line. Nothing is written.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import yaml

from steersman import documents
from steersman.cli.operator_loader import LoadError

__all__ = ["crds_from", "crds_in", "crds_of_cluster"]


def crds_from(sources: Iterable[str]) -> list[dict[str, Any]]:
    """Return the CRDs in files, in YAML and JSON files below directories, and on stdin (`-`). Raises `LoadError`."""
    found: list[dict[str, Any]] = []
    for source in sources:
        path = Path(source)
        if source == "-":
            found += crds_in(sys.stdin.read(), "stdin")
            continue
        if not path.exists():
            raise LoadError(f"{source}: there is no such file or directory")
        files = (
            sorted(f for f in path.rglob("*") if f.suffix in (".yaml", ".yml", ".json")) if path.is_dir() else [path]
        )
        for file in files:
            try:
                text = file.read_text(encoding="utf-8")
            except OSError as problem:
                raise LoadError(f"{file}: {problem.strerror}") from None
            except UnicodeDecodeError:
                raise LoadError(f"{file}: it is not UTF-8 text") from None
            found += crds_in(text, str(file))
    return found


def crds_in(text: str, source: str) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions in YAML or JSON, including those in Lists. Raises `LoadError`."""
    try:
        found_documents = [document.value for document in documents.load_all(text)]
    except yaml.YAMLError as wrong:
        line, text = documents.error_position(wrong)
        raise LoadError(f"{source}:{line}: not YAML: {text}" if line else f"{source}: not YAML: {text}") from None
    objects: list[Any] = []
    for document in found_documents:
        if isinstance(document, dict) and str(cast("dict[str, Any]", document).get("kind", "")).endswith("List"):
            objects += cast("dict[str, Any]", document).get("items") or []
        else:
            objects.append(document)
    found = [cast("dict[str, Any]", o) for o in objects if isinstance(o, dict)]
    return [o for o in found if o.get("kind") == "CustomResourceDefinition"]


def crds_of_cluster(
    names: Iterable[str],
    groups: Iterable[str],
    kubeconfig: str | None,
    context: str | None,
    *,
    missing_ok: bool = False,
) -> list[dict[str, Any]]:
    """Return the CRDs of a cluster with these names, and of these groups.

    Raises `LoadError` for missing CRDs, unless `missing_ok` is set.
    """
    names, groups = list(names), list(groups)
    if not names and not groups:
        return []
    from steersman.client.config import load_config

    every = asyncio.run(_read(load_config(kubeconfig, context)))
    by_name = {str(crd["metadata"]["name"]): crd for crd in every}
    missing = [name for name in names if name not in by_name]
    missing += [group for group in groups if not any(crd["spec"]["group"] == group for crd in every)]
    if missing and not missing_ok:
        known = ", ".join(sorted(by_name)) or "none"
        raise LoadError(f"the cluster has no CRD of {', '.join(missing)}; it has {known}", 1)
    return [crd for name, crd in sorted(by_name.items()) if name in names or crd["spec"]["group"] in groups]


async def _read(config: Any) -> list[dict[str, Any]]:
    from steersman.client import Client

    async with Client.from_config(config) as client:
        answer = await client.raw.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        items: list[dict[str, Any]] = json.loads(answer.body)["items"]
    stamp = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return [{**item, **stamp} for item in items]
