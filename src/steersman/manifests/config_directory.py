"""The files of `config/`: their content, and the comparison with a directory.

The first line marks generated files. Generated files that are not needed any more are removed; other files
are not changed. An existing file without that line belongs to the user and is kept, except for CRDs and roles. Files
are replaced atomically.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from steersman.manifests.crd import Check, Conversion, definitions
from steersman.manifests.kinds import classes_of
from steersman.manifests.kustomize import crd_file, kustomization, kustomize_files
from steersman.manifests.packaging import Package
from steersman.manifests.permissions.roles import rbac, user_roles
from steersman.manifests.sample_files import SAMPLES, is_unedited, sample_files
from steersman.manifests.yaml import to_yaml
from steersman.operator.operator import Operator

__all__ = [
    "CONFIG_FOLDERS",
    "HEADER",
    "Changes",
    "compare",
    "config_files",
    "crds",
    "package_files",
    "samples",
    "write",
]

HEADER: Final = "# Made by `steersman manifests`. Change the operator, not this file.\n"
_MAX_BYTES: Final = 4 << 20
"""The part of a file that is read to find out whether it was generated."""
CONFIG_FOLDERS: Final = (
    "crd",
    "crd/bases",
    "rbac",
    "manager",
    "webhook",
    "certmanager",
    "network-policy",
    "prometheus",
    "default",
    SAMPLES,
)
_GENERATED_FOLDERS: Final = ("crd", "crd/bases", "rbac")
"""Folders whose files are always generated, except kustomizations."""


def crds(source: Any, *, max_description: int | None = None, check: Check | None = None) -> list[dict[str, Any]]:
    """Return the CRDs of an operator or of classes; see `definitions`.

    An operator with converters gets a conversion webhook at the Service `<name>-webhook` in `<name>-system`.
    """
    return definitions(
        classes_of(source), max_description=max_description, conversions=_conversions(source, None), check=check
    )


def _conversions(source: Any, namespace: str | None) -> dict[tuple[str, str], Conversion]:
    if not isinstance(source, Operator):
        return {}
    service = Conversion(f"{source.name}-webhook", namespace or f"{source.name}-system")
    return {(w.kind.info.group, w.kind.info.kind): service for w in source.webhooks if w.purpose == "converter"}


def config_files(
    operator: Operator,
    *,
    namespace: str | None = None,
    namespaces: tuple[str, ...] = (),
    secure_metrics: bool = False,
    max_description: int | None = None,
    check: Check | None = None,
) -> dict[str, str]:
    """Return the text of every file by its path below `config/`, sorted. Raises `ManifestError`."""
    made = definitions(classes_of(operator), max_description=max_description, check=check)
    files = {f"crd/{crd_file(crd)}": to_yaml(crd) for crd in made}
    files["rbac/role.yaml"] = to_yaml(
        rbac(operator, namespace=namespace, namespaces=namespaces, secure_metrics=secure_metrics)
    )
    if made:
        files["rbac/user_roles.yaml"] = to_yaml(user_roles(operator))
    return {path: HEADER + text for path, text in sorted(files.items())}


def package_files(package: Package, *, check: Check | None = None, split: bool = False) -> dict[str, str]:
    """Return all files below `config/`: those of `config_files`, and the operator's Deployment. Raises `ManifestError`.

    With `split`, every object has a file of its own.
    """
    return {path: HEADER + text for path, text in kustomize_files(package, check=check, split=split).items()}


def samples(package: Package, config: Path) -> dict[str, str]:
    """Return the samples and their kustomization by path below `config`. Raises `OSError` for unreadable files."""
    made, names = sample_files(crds(package.operator), config / SAMPLES)
    files = {f"{SAMPLES}/{name}": text for name, text in made.items()}
    if names:
        files[f"{SAMPLES}/kustomization.yaml"] = HEADER + kustomization(names)
    return files


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes that a write makes in a directory, as paths below it."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Files of the user that differ; they are not changed."""

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone)


def compare(files: Mapping[str, str], directory: Path, folders: Sequence[str] = CONFIG_FOLDERS) -> Changes:
    """Compare `files` with a directory; generated files in its `folders` that are not in `files` are `gone`.

    Raises `OSError` for files that cannot be read.
    """
    new: list[str] = []
    changed: list[str] = []
    kept: list[str] = []
    for path, text in files.items():
        target = directory / path
        if not target.exists():
            new.append(path)
        elif target.read_bytes() != text.encode():
            (kept if _may_belong_to_user(path, text) and not _is_generated(target) else changed).append(path)
    gone = [
        str(file.relative_to(directory).as_posix())
        for folder in folders
        for file in sorted((directory / folder).glob("*.yaml"))
        if file.relative_to(directory).as_posix() not in files and _is_generated(file)
    ]
    return Changes(tuple(new), tuple(changed), tuple(gone), tuple(kept))


def _may_belong_to_user(path: str, text: str) -> bool:
    folder, _, name = path.rpartition("/")
    return text.startswith(HEADER) and (folder not in _GENERATED_FOLDERS or name == "kustomization.yaml")


def _is_generated(file: Path) -> bool:
    with file.open("rb") as stream:
        text = stream.read(_MAX_BYTES).decode(errors="replace")
    return text.startswith(HEADER) or is_unedited(text)


def write(files: Mapping[str, str], directory: Path, folders: Sequence[str] = CONFIG_FOLDERS) -> Changes:
    """Write changed files and remove obsolete ones; return the changes. Raises `OSError`."""
    changes = compare(files, directory, folders)
    for path in (*changes.new, *changes.changed):
        _replace(directory / path, files[path].encode())
    for path in changes.gone:
        (directory / path).unlink()
    return changes


def _replace(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
