"""The images of the operators: built by `steersman build`, and cached as archives."""

from __future__ import annotations

import json
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.node.base_image import base_image, digest, lock_files
from tests.node.commands import CACHE, REPOSITORY, run
from tests.node.image_storage import buildah, exclusive, is_cached, save_image


@dataclass(frozen=True)
class OperatorImage:
    """The image of one operator."""

    name: str
    archive: Path
    bytes_above_base: int
    """The size of the files that the image adds to its base, uncompressed."""


def operator_image(project: str, *, name: str = "") -> OperatorImage:
    """Build the image of `operators/PROJECT`, if its archive is not cached.

    Args:
        project: The directory below `operators`.
        name: The name of the image with its tag; that of the project if empty.
    """
    directory = REPOSITORY / "operators" / project
    full_name = f"docker.io/library/{name or f'{project}:0.1.0'}"
    sources = [directory / "Dockerfile", directory / "pyproject.toml", directory / "requirements.lock"]
    sources += [directory / project, REPOSITORY / "src", REPOSITORY / "pyproject.toml", *lock_files()]
    archive = CACHE / f"{project}-{digest(*sources, Path(__file__).with_name('base_image.py'), also=full_name)}.tar"
    with exclusive():
        if not is_cached(archive):
            _build(directory, full_name, archive)
    return OperatorImage(full_name, archive, _bytes_above_base(archive))


def _build(directory: Path, full_name: str, archive: Path) -> None:
    """Build the image and write its archive."""
    tool = buildah()
    tool.prune()
    base = base_image(tool)
    build = ["build", "--tool", "buildah", "--image", full_name, "--build-arg", f"PYTHON={base}"]
    run(sys.executable, "-m", "steersman", *build, env=tool.env, cwd=directory, isolated=True)
    save_image(tool, full_name, archive)


def _bytes_above_base(archive: Path) -> int:
    """Return the size of the layers above the first one, which is the base."""
    with tarfile.open(archive) as tar:
        manifest = tar.extractfile("manifest.json")
        assert manifest is not None
        layers = json.load(manifest)[0]["Layers"]
        return sum(tar.getmember(layer).size for layer in layers[1:])
