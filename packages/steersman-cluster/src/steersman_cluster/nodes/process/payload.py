"""Files of ConfigMap, Secret, downward API and projected volumes: their content, and their atomic replacement.

The files of a volume are links through `..data`, a link to a directory with the content. A new directory is written
first, and then one rename replaces the link, as in the kubelet. So a reader sees the old files or the new ones.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from steersman_cluster.nodes.process.environment import (
    ConfigError,
    Facts,
    bytes_of,
    field_value,
    resource_value,
)
from steersman_cluster.objects import Object, dig

__all__ = ["File", "Payload", "TokenRequest", "files_of", "references_of_volume", "tokens_of", "write"]


@dataclass(frozen=True, slots=True)
class File:
    """Content and mode of a file."""

    content: bytes
    mode: int

    def __repr__(self) -> str:
        return f"<File of {len(self.content)} bytes, mode {self.mode:o}>"


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A ServiceAccount token that a projected volume requests."""

    audience: str
    seconds: int


Payload = Mapping[str, File]
"""Files by path relative to the volume."""


def references_of_volume(volume: Object) -> set[tuple[str, str]]:
    """Return the ConfigMaps and Secrets that a volume refers to."""
    found: set[tuple[str, str]] = set()
    for source in _sources(volume):
        if "configMap" in source:
            found.add(("configmap", source["configMap"].get("name") or ""))
        if "secret" in source:
            secret: Object = source["secret"]
            found.add(("secret", secret.get("secretName") or secret.get("name") or ""))
    return found


def tokens_of(volume: Object) -> list[TokenRequest]:
    """Return the tokens that a volume requests."""
    return [
        TokenRequest(token.get("audience") or "", token.get("expirationSeconds") or 3600)
        for source in _sources(volume)
        if (token := source.get("serviceAccountToken")) is not None
    ]


def _sources(volume: Object) -> Iterable[Object]:
    if "projected" in volume:
        return volume["projected"].get("sources") or ()
    return (volume,)


def files_of(
    volume: Object,
    facts: Facts,
    references: Mapping[tuple[str, str], Object | None],
    tokens: Mapping[TokenRequest, str],
) -> dict[str, File]:
    """Return the files of a volume; raises `ConfigError` with the kubelet's message for a missing object."""
    kind = next(k for k in ("projected", "configMap", "secret", "downwardAPI") if k in volume)
    mode: int = volume[kind].get("defaultMode") or 0o644
    files: dict[str, File] = {}
    for source in _sources(volume):
        if "configMap" in source:
            files.update(_of_object("configmap", source["configMap"], mode, facts, references))
        elif "secret" in source:
            files.update(_of_object("secret", source["secret"], mode, facts, references))
        elif "downwardAPI" in source:
            files.update(_downward(source["downwardAPI"], mode, facts))
        elif "serviceAccountToken" in source:
            wanted: Object = source["serviceAccountToken"]
            request = TokenRequest(wanted.get("audience") or "", wanted.get("expirationSeconds") or 3600)
            files[wanted["path"]] = File(tokens[request].encode(), mode)
        else:
            raise ConfigError(f"a projected volume's source is not supported: {', '.join(source)}")
    return files


def _of_object(
    kind: str, source: Object, mode: int, facts: Facts, references: Mapping[tuple[str, str], Object | None]
) -> dict[str, File]:
    name = source.get("secretName") or source.get("name") or ""
    obj = references.get((kind, name))
    if obj is None:
        if source.get("optional"):
            return {}
        raise ConfigError(f'{kind} "{name}" not found')
    data = bytes_of(obj)
    items: list[Object] | None = source.get("items")
    if not items:
        return {key: File(value, mode) for key, value in data.items()}
    files: dict[str, File] = {}
    for item in items:
        if item["key"] not in data:
            if source.get("optional"):
                continue
            shown = "configmap" if kind == "configmap" else "secret"
            raise ConfigError(f"{shown} references non-existent {shown} key: {item['key']}")
        files[item["path"]] = File(data[item["key"]], item.get("mode") or mode)
    return files


def _downward(source: Object, mode: int, facts: Facts) -> dict[str, File]:
    files: dict[str, File] = {}
    containers: list[Object] = dig(facts.pod, "spec", "containers", default=[])
    for item in source.get("items") or ():
        if "fieldRef" in item:
            text = field_value(item["fieldRef"].get("fieldPath") or "", facts)
        else:
            text = resource_value(item["resourceFieldRef"], containers[0], facts)
        files[item["path"]] = File(text.encode(), item.get("mode") or mode)
    return files


def write(directory: Path, payload: Payload, *, group: int | None = None) -> bool:
    """Replace the files of a directory atomically; returns false if they are unchanged.

    With `group` the files belong to that group and are readable for it.
    Raises `ValueError` for a path outside the directory.
    """
    for path in payload:
        if path.startswith("/") or ".." in path.split("/") or not path:
            raise ValueError(f"the path {path!r} leads out of its volume")
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / "..data"
    if link.is_symlink() and _directory_contents(link.resolve()) == {
        path: (file.content, _mode(file, group)) for path, file in payload.items()
    }:
        return False
    old = link.resolve() if link.is_symlink() else None
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=directory))
    fresh.chmod(0o755)
    _write_files(fresh, payload, group)
    temporary = directory / "..data_tmp"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(fresh.name)
    os.replace(temporary, link)
    tops = {path.split("/", 1)[0] for path in payload}
    for top in tops:
        if not (directory / top).is_symlink():
            (directory / top).symlink_to(f"..data/{top}")
    for present in directory.iterdir():
        if not present.name.startswith("..") and present.name not in tops:
            present.unlink()
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _write_files(directory: Path, payload: Payload, group: int | None) -> None:
    for path, file in payload.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(_mode(file, group))
        if group is not None:
            os.chown(target, -1, group)


def _mode(file: File, group: int | None) -> int:
    return file.mode if group is None else file.mode | 0o440


def _directory_contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in directory.rglob("*")
        if path.is_file()
    }
