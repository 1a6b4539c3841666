"""A base image for operators made from Debian packages, cached by its content; it stands in for the image of Python.

Images come from no registry here. The base has Debian's Python and `python` on the PATH. Packages for pip lie in
`/opt/wheels`, and pip looks nowhere else, so that images of operators are built without a network.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steersman" / "real-node"
REPOSITORY = Path(__file__).parents[2]

PIP = "[global]\nno-index = true\nfind-links = /opt/wheels\ndisable-pip-version-check = true\n"
"""The configuration of pip in images: it uses only the packages in `/opt/wheels`."""

_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "netbase", "tzdata", "python3", "python3-venv")
_BUILD_PACKAGES = ("hatchling==1.27.0",)
_REMOVED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists", "var/log")
_BUILD_SECONDS = 1200
_PART_PREFIX = ".building-"


@dataclass(frozen=True)
class Buildah:
    """buildah with a storage below the cache, so that the storage of the host stays as it is."""

    env: Mapping[str, str]

    def __call__(self, *words: str | Path) -> str:
        """Run buildah and return its output; a failure shows its messages."""
        return run("buildah", *words, env=self.env)


def run(*words: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a command and return its output; a failure shows its messages."""
    done = subprocess.run(
        [str(word) for word in words],
        env=dict(env or os.environ),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{words[0]} failed: {(done.stdout + done.stderr)[-4000:]}"
    return done.stdout


def buildah() -> Buildah:
    """Return buildah, configured."""
    assert shutil.which("buildah"), "apt-get install --no-install-recommends buildah"
    home = CACHE / "containers"
    home.mkdir(parents=True, exist_ok=True)
    configuration = home / "storage.conf"
    configuration.write_text(
        f'[storage]\ndriver = "overlay"\nrunroot = "{home / "run"}"\ngraphroot = "{home / "graph"}"\n'
    )
    names = {"BUILDAH_ISOLATION": "chroot", "CONTAINERS_STORAGE_CONF": str(configuration)}
    return Buildah({**os.environ, **names})


def digest(*paths: Path, also: str = "") -> str:
    """Return a short hash of the content of files and directories."""
    found = hashlib.sha256(also.encode())
    for path in paths:
        files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(path.parent)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:12]


@contextmanager
def exclusive() -> Iterator[None]:
    """Prevent other test runs of this user from building at the same time; delete what a killed run has left."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for part in CACHE.glob(f"{_PART_PREFIX}*"):
            shutil.rmtree(part)
        yield


@contextmanager
def complete(target: Path) -> Iterator[Path]:
    """Yield a path beside `target`, which replaces it when the block has succeeded."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=_PART_PREFIX) as directory:
        part = Path(directory) / target.name
        yield part
        part.rename(target)


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
    if not archive.exists():
        with complete(archive) as part:
            root = part.with_suffix(".root")
            # What debootstrap mounts in the new system ends with the mount namespace.
            command = ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={','.join(packages)}"]
            run(*command, suite, root, mirror())
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
    """Return the name of the base image, which is built if the storage lacks it."""
    root, packages = debian_root(), wheels()
    name = f"localhost/steersman-python:{root.stem.rpartition('-')[2]}-{packages.name.rpartition('-')[2]}"
    if tool("images", "--quiet", "--filter", f"reference={name}").strip():
        return name
    container = tool("from", "scratch").strip()
    tool("add", "--quiet", container, root, "/")
    tool("copy", "--quiet", container, packages, "/opt/wheels")
    tool("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", "--cmd", "python", container)
    tool("commit", "--quiet", "--rm", container, name)
    return name
