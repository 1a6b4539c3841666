"""Write `src/steersman/k8s/` from the API server's own description of itself.

    python tools/generate_models.py [--check]

Input is `tools/data/kubernetes-*-api.tar.xz`: OpenAPI v3 documents and aggregated discovery. With `--check` nothing is
written, and the exit status is 1 when a file differs. For CRDs there is `steersman models`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

from steersman.models.codegen import (
    ModuleDef,
    facts_of,
    modules_from_openapi,
    render_facts,
    render_index,
    render_module,
    render_stub,
)

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "steersman" / "k8s"
PACKAGE = "steersman.k8s"
PREFERRED = ("core_v1", "apps_v1", "batch_v1", "autoscaling_v2", "rbac_v1", "networking_v1")
"""Whose name wins when several modules have a class of the same name and rank."""


def read_archive(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The OpenAPI documents and the discovery documents of an archive."""
    documents: list[dict[str, Any]] = []
    discovery: list[dict[str, Any]] = []
    with tarfile.open(path) as archive:
        for member in sorted(archive.getnames()):
            content = archive.extractfile(member) if member.endswith(".json") else None
            if content is None:
                continue
            if "openapi-v3/api" in member:
                documents.append(json.load(content))
            elif "discovery/aggregated" in member:
                discovery.append(json.load(content))
    return documents, discovery


def public_names(modules: list[ModuleDef]) -> dict[str, str]:
    """Every class by a name of its own: kinds before other types, the core first; others as `EventsV1Event`."""

    def rank(module: ModuleDef, name: str) -> tuple[bool, int, str]:
        cls = module.classes.get(name)
        short = module.path.rpartition(".")[2]
        place = PREFERRED.index(short) if short in PREFERRED else len(PREFERRED)
        return (cls is None or cls.resource is None, place, short)

    owners: dict[str, list[ModuleDef]] = {}
    for module in modules:
        for name in (*module.classes, *module.reexports):
            owners.setdefault(name, []).append(module)
    names: dict[str, str] = {}
    for name, candidates in owners.items():
        first, *others = sorted(candidates, key=lambda m: rank(m, name))
        names[name] = f"{first.path.rpartition('.')[2]}:{name}"
        for module in others:
            short = module.path.rpartition(".")[2]
            names["".join(p.title() for p in short.split("_")) + name] = f"{short}:{name}"
    return names


def generate(archive: Path) -> dict[str, str]:
    """File name to content."""
    documents, discovery = read_archive(archive)
    modules = modules_from_openapi(documents, discovery, package=PACKAGE)
    files = {f"{m.path.rpartition('.')[2]}.py": render_module(m) for m in modules}
    names = public_names(modules)
    kinds: dict[tuple[str, str], tuple[str, str]] = {}
    for module in modules:
        for cls in module.classes.values():
            if (info := cls.resource) is not None:
                version = f"{info.group}/{info.version}" if info.group else info.version
                kinds[version, info.kind] = (module.path.rpartition(".")[2], cls.ref.name)
    files["_index.py"] = render_index(names, kinds)
    schemas = {name: schema for d in documents for name, schema in d["components"]["schemas"].items()}
    files["_facts.py"] = render_facts(facts_of(modules, schemas))
    files["__init__.pyi"] = render_stub(names, [m.path.rpartition(".")[2] for m in modules], PACKAGE)
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate steersman.k8s from OpenAPI v3.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file differs")
    arguments = parser.parse_args()
    files = generate(max((ROOT / "tools" / "data").glob("kubernetes-*-api.tar.xz")))
    stale: list[str] = []
    for name, content in files.items():
        path = TARGET / name
        if path.exists() and path.read_text() == content:
            continue
        stale.append(name)
        if not arguments.check:
            path.write_text(content)
    print(f"{len(stale)} files {'differ' if arguments.check else 'written'}: {', '.join(stale) or 'none'}")
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
