"""All that is installed as one file, in an order in which each finds what it needs."""

from __future__ import annotations

from steersman.manifests.crd import Check
from steersman.manifests.packaging import Package
from steersman.manifests.parts import everything
from steersman.manifests.tree import HEADER
from steersman.manifests.yaml import to_yaml

__all__ = ["install_file"]


def install_file(package: Package, *, check: Check | None = None) -> str:
    """The text of the file. Raises `ManifestError`."""
    return HEADER + to_yaml(everything(package, check=check))
