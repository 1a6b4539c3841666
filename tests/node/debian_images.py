"""Images of single programs with files of Debian packages: unpacked, not installed, and cached as archives.

The packages are those of this machine's release. Nothing of them runs or is configured on the machine.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from tests.node.base_image import digest
from tests.node.commands import CACHE, run
from tests.node.image_storage import buildah, exclusive, is_cached, save_image

_RUNTIME_PACKAGE = "libc6"
_REMOVED = ("doc", "man", "locale", "lintian")
_NAME_SERVICES = "hosts: files dns\n"
"""Without the file, the C library asks only the DNS for `localhost`."""


def candidate(package: str) -> str:
    """Return the version of a package that the package manager of this machine would install."""
    for line in run("apt-cache", "policy", package).splitlines():
        field, _, value = line.strip().partition(": ")
        if field == "Candidate" and value.strip() != "(none)":
            return value.strip()
    raise AssertionError(f"apt knows no package {package}: apt-get update")


def upstream_version(package: str) -> str:
    """Return the version of a package without the additions of Debian."""
    return candidate(package).rpartition(":")[2].partition("-")[0].partition("+")[0]


def debian_image(name: str, program: str, *, packages: tuple[str, ...] = (), programs: tuple[Path, ...] = ()) -> Path:
    """Return the archive of an image with the C library and one program as its entry point.

    Args:
        name: The full name of the image with its tag.
        program: The path of the program in the image.
        packages: The Debian packages whose files the image has.
        programs: Programs of this machine that the image has in `/usr/bin`.
    """
    label = name.rpartition("/")[2].partition(":")[0]
    packages = (_RUNTIME_PACKAGE, *packages)
    versions = [f"{package}={candidate(package)}" for package in packages]
    key = digest(Path(__file__), *programs, also=repr((name, program, versions)))
    archive = CACHE / f"debian-{label}-{key}.tar"
    with exclusive():
        if not is_cached(archive):
            _build(name, program, packages, programs, archive)
    return archive


def _build(name: str, program: str, packages: tuple[str, ...], programs: tuple[Path, ...], archive: Path) -> None:
    tool = buildah()
    with tempfile.TemporaryDirectory() as directory:
        downloads, root = Path(directory) / "packages", Path(directory) / "root"
        downloads.mkdir()
        run("apt-get", "download", "--quiet", *packages, cwd=downloads)
        for file in sorted(downloads.glob("*.deb")):
            run("dpkg-deb", "--extract", file, root)
        for removed in _REMOVED:
            shutil.rmtree(root / "usr/share" / removed, ignore_errors=True)
        # Later releases have these directories only as links, which are in a package that this image lacks.
        for link in ("bin", "lib", "lib64"):
            if not (root / link).exists():
                (root / link).symlink_to(f"usr/{link}")
        for path in ("usr/bin", "etc"):
            (root / path).mkdir(exist_ok=True)
        for one in programs:
            shutil.copy2(one, root / "usr/bin")
        (root / "etc/nsswitch.conf").write_text(_NAME_SERVICES)
        container = tool("from", "scratch").strip()
        tool("add", "--quiet", container, root, "/")
        tool("config", "--env", "PATH=/usr/bin:/bin", "--entrypoint", json.dumps([program]), container)
        tool("commit", "--quiet", "--rm", container, name)
    save_image(tool, name, archive)
