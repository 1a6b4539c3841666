"""Manifests as people keep them: YAML and JSON files, directories of them, several documents a file, Lists.

Every object remembers the file and the line it comes from, for errors that can be clicked on. Scalars are read as
kubectl reads them: times and `12:30` stay strings. Nothing here talks to a server.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steersman import documents

__all__ = ["Manifest", "ManifestError", "parse", "read"]

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_NOT_FOR_CLUSTERS: Final = ("kustomize.config.k8s.io/",)


class ManifestError(ValueError):
    """A file that cannot be read, or holds no manifest; the message begins with where."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object as it is written in a file."""

    source: str
    """`config/crd/apps.yaml:12`."""
    body: dict[str, Any]

    @property
    def api_version(self) -> str:
        """The `apiVersion` field of the object."""
        return str(self.body["apiVersion"])

    @property
    def kind(self) -> str:
        """The `kind` field of the object."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """Its name; empty where the server is to generate one."""
        return str(self.body["metadata"].get("name") or "")

    @property
    def namespace(self) -> str:
        """The namespace of the object; empty if the file does not state one."""
        return str(self.body["metadata"].get("namespace") or "")


def read(paths: Iterable[Path | str]) -> tuple[list[Manifest], list[ManifestError]]:
    """All manifests in files, and in directories below (`*.yaml`, `*.yml`, `*.json`, by name); `-` is standard input.

    Returns also what could not be read; kustomizations and kubeconfigs found in directories are passed over.
    """
    manifests: list[Manifest] = []
    problems: list[ManifestError] = []
    for given in paths:
        try:
            for file, in_directory in _files(given):
                try:
                    text = sys.stdin.read() if file is None else file.read_text()
                except (OSError, UnicodeDecodeError) as problem:
                    reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
                    problems.append(ManifestError(f"{file}: cannot be read: {reason}"))
                    continue
                try:
                    manifests += parse(text, "-" if file is None else str(file), skip_foreign=in_directory)
                except ManifestError as problem:
                    problems.append(problem)
        except ManifestError as problem:
            problems.append(problem)
    return manifests, problems


def _files(given: Path | str) -> Iterator[tuple[Path | None, bool]]:
    if str(given) == "-":
        yield None, False
        return
    path = Path(given)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
        if not found:
            raise ManifestError(f"{path}: there is no {', '.join('*' + s for s in _SUFFIXES)} in this directory")
        yield from ((file, True) for file in found)
    elif path.exists():
        yield path, False
    else:
        raise ManifestError(f"{path}: there is no such file or directory")


def parse(text: str, source: str, *, skip_foreign: bool = False) -> list[Manifest]:
    """The manifests of one text, with `List` objects unrolled. Raises `ManifestError`."""
    manifests: list[Manifest] = []
    try:
        for document in documents.load_all(text):
            if document.value is not None:
                manifests += _objects(document.value, f"{source}:{document.line}", skip_foreign=skip_foreign)
    except yaml.YAMLError as problem:
        line, text = documents.error_position(problem)
        raise ManifestError(f"{source}:{line}: not YAML: {text}" if line else f"{source}: not YAML: {text}") from None
    return manifests


def _objects(body: Any, where: str, *, skip_foreign: bool) -> Iterator[Manifest]:
    if not isinstance(body, dict):
        raise ManifestError(f"{where}: a manifest is a mapping with apiVersion and kind, not a {type(body).__name__}")
    found = cast("dict[str, Any]", body)
    missing = [field for field in ("apiVersion", "kind") if not isinstance(found.get(field), str) or not found[field]]
    if missing:
        raise ManifestError(f"{where}: a manifest needs apiVersion and kind; missing: {', '.join(missing)}")
    if skip_foreign and (
        found["apiVersion"].startswith(_NOT_FOR_CLUSTERS) or (found["apiVersion"], found["kind"]) == ("v1", "Config")
    ):
        return
    if found["kind"].endswith("List") and isinstance(found.get("items"), list):
        for n, item in enumerate(cast("list[Any]", found["items"])):
            yield from _objects(item, f"{where} (item {n + 1})", skip_foreign=skip_foreign)
        return
    metadata = found.get("metadata")
    if not isinstance(metadata, dict) or not (
        cast("dict[str, Any]", metadata).get("name") or cast("dict[str, Any]", metadata).get("generateName")
    ):
        raise ManifestError(f"{where}: {found['kind']} has no metadata.name")
    yield Manifest(where, found)
