"""The size of `pip install steersman` in an empty environment: its packages, their files and their bytecode.

    python hack/installed_size.py [EXTRA ...]

It reads the packages of the environment that runs it, so that it needs no network, and builds the wheel of the
checkout. pip compiles every module, and the bytecode counts.
"""

from __future__ import annotations

import marshal
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
_PYC_HEADER_BYTES = 16


def packages(root: str, extras: Iterable[str] = ()) -> list[Distribution]:
    """Return the installed packages that a package needs on this platform, itself excluded."""
    found: dict[str, Distribution] = {}
    wanted = [(root, {"", *extras})]
    done: set[tuple[str, str]] = set()
    while wanted:
        name, chosen = wanted.pop()
        name = re.sub(r"[-_.]+", "-", name).lower()
        new = {extra for extra in chosen if (name, extra) not in done}
        if not new:
            continue
        done |= {(name, extra) for extra in new}
        try:
            found[name] = installed = distribution(name)
        except PackageNotFoundError:
            continue  # a package for another platform
        for text in installed.requires or ():
            requirement = Requirement(text)
            if any(requirement.marker is None or requirement.marker.evaluate({"extra": extra}) for extra in new):
                wanted.append((requirement.name, {"", *requirement.extras}))
    found.pop(root, None)
    return [found[name] for name in sorted(found)]


def size_of(installed: Distribution) -> int:
    """Return the bytes of the files of a package, with the bytecode that pip compiles."""
    size = 0
    for file in installed.files or ():
        path = Path(str(installed.locate_file(file)))
        if path.suffix == ".pyc" or ".." in file.parts or not path.is_file():
            continue  # bytecode is counted below, and commands are outside of site-packages
        size += path.stat().st_size
        if path.suffix == ".py":
            size += bytecode_bytes(path.read_bytes(), str(path))
    return size


def bytecode_bytes(source: bytes, name: str) -> int:
    """Return the size of the compiled module, 0 for a template or a file of another Python version."""
    try:
        return len(marshal.dumps(compile(source, name, "exec", dont_inherit=True))) + _PYC_HEADER_BYTES
    except (SyntaxError, ValueError):
        return 0


def size_of_wheel() -> int:
    """Return the bytes of the checkout's plain wheel after its installation."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        (made,) = Path(directory).glob("*.whl")
        with zipfile.ZipFile(made) as archive:
            return sum(
                entry.file_size
                + (bytecode_bytes(archive.read(entry), entry.filename) if entry.filename.endswith(".py") else 0)
                for entry in archive.infolist()
            )


def sizes(extras: Sequence[str] = ()) -> dict[str, int]:
    """Return the bytes of each package that `pip install steersman[EXTRAS]` installs."""
    found = {one.metadata["Name"]: size_of(one) for one in packages("steersman", extras)}
    return {**found, "steersman": size_of_wheel()}


def main() -> None:
    found = sizes(sys.argv[1:])
    for name, size in sorted(found.items(), key=lambda item: -item[1]):
        print(f"{size / 1e6:8.2f} MB  {name}")
    print(f"{sum(found.values()) / 1e6:8.2f} MB  together")


if __name__ == "__main__":
    main()
