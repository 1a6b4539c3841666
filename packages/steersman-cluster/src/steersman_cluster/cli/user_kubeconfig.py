"""Puts a cluster's context into the user's own kubeconfig, and takes it out again, without touching the rest.

As kubectl, kind and minikube do: our entries carry our name and a mark, everything else stays as it is, and the file
is replaced in one step under the lock that client-go's tools respect. A file that cannot be understood, and an entry
of the same name that is not ours, are left alone and told.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steersman import documents

__all__ = ["KubeconfigError", "context_name", "merge", "take_out"]

_MARK: Final = "steersman.dev/cluster"
_LISTS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}


class KubeconfigError(Exception):
    """The user's kubeconfig cannot be merged into; it has not been touched."""


def context_name(name: str) -> str:
    """The context of a cluster: `steersman`, or `steersman-NAME` for one with a name of its own."""
    return "steersman" if name == "default" else f"steersman-{name}"


def merge(path: Path, source: Path, context: str) -> None:
    """Put the one cluster of `source` into `path` as `context`, and make it the current one.

    Raises `KubeconfigError`; creates the file (0600) where there is none.
    """
    ours: Any = documents.load(source.read_text())
    credentials = ours["users"][0]["user"]
    extension = {"context": context}
    mark = [{"name": _MARK, "extension": extension}]
    cluster = {**ours["clusters"][0]["cluster"], "extensions": mark}
    target = {"cluster": context, "user": context, "namespace": "default", "extensions": mark}
    with _locked(path) as real:
        document = _read(real)
        _check_ownership(document, context, path)
        before = document.get("current-context") or ""
        if before and before != context:
            extension["before"] = before
        for key, what, value in (
            ("clusters", "cluster", cluster),
            ("users", "user", credentials),
            ("contexts", "context", target),
        ):
            document[key] = [*_others(document, key, context), {"name": context, what: value}]
        document.setdefault("apiVersion", "v1")
        document.setdefault("kind", "Config")
        document["current-context"] = context
        _write(real, document)


def take_out(path: Path, context: str) -> None:
    """Remove `context` again if it is ours, and make the context current that was before; a missing file is fine."""
    try:
        with _locked(path) as real:
            document = _read(real)
            entries = _entries(document, "contexts", context)
            if not entries or not _is_managed(entries[0].get("context")):
                return
            before = _marked(entries[0]["context"]).get("before") or ""
            for key in _LISTS:
                document[key] = _others(document, key, context)
            if document.get("current-context") == context:
                document["current-context"] = before if _entries(document, "contexts", before) else ""
            _write(real, document)
    except KubeconfigError:
        return


def _check_ownership(document: dict[str, Any], context: str, path: Path) -> None:
    ours = any(_is_managed(entry.get("context")) for entry in _entries(document, "contexts", context))
    for key, what in _LISTS.items():
        if _entries(document, key, context) and not ours:
            raise KubeconfigError(
                f"{path} has a {what} {context!r} that is not of Steersman's making, and it is left alone: "
                "rename it, or give the cluster another --name"
            )


def _list(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return document.get(key) or []


def _entries(document: dict[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    return [entry for entry in _list(document, key) if entry.get("name") == name]


def _others(document: dict[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    return [entry for entry in _list(document, key) if entry.get("name") != name]


def _marked(value: Any) -> dict[str, Any]:
    for extension in _list(value or {}, "extensions"):
        if extension.get("name") == _MARK:
            return extension.get("extension") or {}
    return {}


def _is_managed(value: Any) -> bool:
    return bool(_marked(value))


def _read(path: Path) -> dict[str, Any]:
    try:
        document = documents.load(path.read_text())
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise KubeconfigError(f"{path} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise KubeconfigError(f"{path} cannot be read: it is not UTF-8 text") from None
    except yaml.YAMLError:
        raise KubeconfigError(f"{path} is not YAML and was not changed: correct it, or name another file") from None
    if document is None:
        return {}
    if not _is_kubeconfig(document):
        raise KubeconfigError(f"{path} is not a kubeconfig and was not changed: name another file")
    return cast("dict[str, Any]", document)


def _is_kubeconfig(document: Any) -> bool:
    if not isinstance(document, dict):
        return False
    for key in _LISTS:
        entries: Any = cast("dict[str, Any]", document).get(key) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in cast("list[Any]", entries)):
            return False
    return True


@contextmanager
def _locked(path: Path) -> Generator[Path]:
    """Yield the target of symbolic links, under the lock of client-go."""
    real = Path(os.path.realpath(path))
    lock = real.with_name(real.name + ".lock")
    deadline = time.monotonic() + 3.0
    try:
        real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            try:
                os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0o600))
                break
            except FileExistsError:
                if time.monotonic() > deadline:
                    raise KubeconfigError(f"{lock} exists: something else writes {path}; remove it if not") from None
                time.sleep(0.05)
    except OSError as problem:
        raise KubeconfigError(f"{path} cannot be written: {problem.strerror}") from None
    try:
        yield real
    finally:
        lock.unlink(missing_ok=True)


def _write(path: Path, document: dict[str, Any]) -> None:
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=False, allow_unicode=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        mode = 0o600
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        raise KubeconfigError(f"{path} cannot be written: {problem.strerror}") from None
