"""The CustomResourceDefinitions of `steersman dev`: the files in `config/crd`, or files made from the operator."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Definitions", "project_directory"]


def project_directory(target: str, here: Path) -> Path:
    """The directory with `config/crd`: the current one, or the directory of the project that contains the module."""
    if (here / "config" / "crd").is_dir():
        return here
    top = target.partition(":")[0].partition(".")[0]
    for place in sys.path:
        if not place:
            continue
        for candidate in (Path(place), Path(place).parent):
            found = (Path(place) / top).is_dir() or (Path(place) / f"{top}.py").is_file()
            if found and (candidate / "config" / "crd").is_dir():
                return candidate
    return here


class Definitions:
    """The CustomResourceDefinitions of an operator.

    Args:
        target: `module:attribute`, the operator.
        project: The directory that can have `config/crd`.
    """

    def __init__(self, target: str, project: Path) -> None:
        self._target = target
        self._project = project / "config" / "crd"
        self.made = not self._project.is_dir()
        """Whether the project has no `config/crd`, so that the definitions are made from the operator."""
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @property
    def directory(self) -> Path:
        """The directory of the definitions; it does not exist if the operator has no kinds of its own."""
        if not self.made:
            return self._project
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="steersman-dev-")
        return Path(self._scratch.name) / "crd"

    def close(self) -> None:
        """Delete the files that were made."""
        if self._scratch is not None:
            self._scratch.cleanup()

    async def make(self) -> tuple[bool, str]:
        """Make the definitions from the operator, if the project has none.

        A process of its own imports the operator, because its modules change during a session.

        Returns:
            Whether the definitions have changed, and the error in one line if they could not be generated.
        """
        if not self.made:
            return False, ""
        before = dict(self._files())
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "steersman", "manifests", self._target, "--output-dir", str(self.directory.parent)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, error = await process.communicate()
        if process.returncode:
            return False, error.decode(errors="replace").partition("\n")[0].removeprefix("error: ")
        return dict(self._files()) != before, ""

    def _files(self) -> Iterator[tuple[Path, bytes]]:
        for path in sorted(self.directory.rglob("*.yaml")):
            yield path, path.read_bytes()
