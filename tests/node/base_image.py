"""A base image for operators made from Debian packages, cached by its content; it stands in for the image of Python.

Images come from no registry here. The base has Debian's Python and `python` on the PATH. Packages for pip lie in
`/opt/wheels`, and pip looks nowhere else, so that images of operators are built without a network.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from tests.node.commands import CACHE, REPOSITORY, run
from tests.node.image_storage import Buildah, complete, is_cached

PIP = "[global]\nno-index = true\nfind-links = /opt/wheels\ndisable-pip-version-check = true\n"
"""The configuration of pip in images: it uses only the packages in `/opt/wheels`."""

_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "netbase", "tzdata", "python3", "python3-venv")
_BUILD_PACKAGES = ("hatchling==1.27.0",)
_REMOVED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists", "var/log")


def digest(*paths: Path, also: str = "") -> str:
    """Return a short hash of the content of files and directories."""
    found = hashlib.sha256(also.encode())
    for path in paths:
        files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(path.parent)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:12]


def mirror() -> str:
    """Return where the package manager of this machine gets the packages of the suite."""
    listed = run("apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
    for line in listed.splitlines():
        codename, component, address = line.split(maxsplit=2)
        if (codename, component) == (_SUITE, "main"):
            return address
    raise AssertionError(f"apt has no source of the suite {_SUITE}: apt-get update, or add one below /etc/apt")


def debian_root(suite: str = _SUITE, packages: tuple[str, ...] = _PACKAGES) -> Path:
    """Return an archive with the files of a Debian system (three minutes, once)."""
    archive = CACHE / f"{suite}-{digest(also=repr((packages, _REMOVED)))}.tar"
    if not is_cached(archive):
        with complete(archive) as part:
            root = part.with_suffix(".root")
            command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}"]
            run(*command, suite, root, mirror(), isolated=True)
            for name in _REMOVED:
                shutil.rmtree(root / name, ignore_errors=True)
            for name in ("var/log", "var/cache/apt/archives/partial", "var/lib/apt/lists/partial"):
                (root / name).mkdir(parents=True)
            if "python3" in packages:
                (root / "opt/wheels").mkdir()
                (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
                (root / "etc/pip.conf").write_text(PIP)
            run("tar", "--create", "--file", part, "--directory", root, ".")
    return archive


def lock_files() -> list[Path]:
    """Return the files that list the packages of the operators' images."""
    return sorted(REPOSITORY.glob("operators/*/requirements.lock"))


def wheels(python: str = "3.11") -> Path:
    """Return a directory with all packages of the operators' images: Steersman of this checkout, and published ones.

    Args:
        python: The version of Python in the image.
    """
    locks = lock_files()
    sources = [REPOSITORY / "src", REPOSITORY / "pyproject.toml", *locks]
    directory = CACHE / f"wheels-{python}-{digest(*sources, also=repr(_BUILD_PACKAGES))}"
    if directory.exists():
        return directory
    with complete(directory) as part:
        part.mkdir()
        run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", part, cwd=REPOSITORY)
        pinned = {line.strip() for lock in locks for line in lock.read_text().splitlines()}
        published = sorted(line for line in pinned if "==" in line and not line.startswith(("#", "steersman==")))
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", part]
        pip += [f"--python-version={python}", "--only-binary=:all:"]
        run(*pip, "--no-deps", *published)
        run(*pip, *_BUILD_PACKAGES)
    for old in CACHE.glob(f"wheels-{python}-*"):
        if old != directory:
            shutil.rmtree(old)
    return directory


def base_image(tool: Buildah) -> str:
    """Return the name of the base image, which is built if the storage lacks it; the former one loses its name."""
    root, packages = debian_root(), wheels()
    name = f"localhost/steersman-python:{root.stem.rpartition('-')[2]}-{packages.name.rpartition('-')[2]}"
    if not tool.has(name):
        container = tool("from", "scratch").strip()
        tool("add", "--quiet", container, root, "/")
        tool("copy", "--quiet", container, packages, "/opt/wheels")
        tool("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", "--cmd", "python", container)
        tool("commit", "--quiet", "--rm", container, name)
        tool.remove_other_tags(name)
    return name
