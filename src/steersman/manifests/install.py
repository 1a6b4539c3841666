"""All installed objects in one file, in order of their dependencies."""

from __future__ import annotations

from steersman.manifests.config_directory import HEADER
from steersman.manifests.crd import Check
from steersman.manifests.packaging import Package
from steersman.manifests.parts import everything
from steersman.manifests.yaml import to_yaml

__all__ = ["install_file"]


def install_file(package: Package, *, check: Check | None = None) -> str:
    """Return the text of the file. Raises `ManifestError`."""
    return HEADER + to_yaml(everything(package, check=check))
