"""Builds the peers that are not Python, and our own wheel, each when it is first needed and never into the tree.

A tool chain that is absent is a reason not to measure (NotMeasuredError), not a failure of the rows beside it. A peer
of ours that does not compile is one. Compilers keep what they built, so asking again is cheap.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent


_COMPILERS = ("hatchling", "mypyc", "setuptools")


class BenchmarkError(Exception):
    """A run that cannot be trusted: a peer died, lost events, or never finished."""


class NotMeasuredError(BenchmarkError):
    """Nothing went wrong, but there is no number: a tool chain is absent, or a peer cannot do what the row asks."""


def cache_dir() -> Path:
    """Return the directory of binaries that are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "steersman" / "benchmarks"


def go() -> str:
    """The Go command; raises NotMeasuredError where there is none."""
    return _tool("go", "https://go.dev/dl", "/usr/local/go/bin")


def build(module: str, name: str, package: str = ".") -> Path:
    """Build a Go program of ours; Go's own cache makes a second build cheap.

    Raises NotMeasuredError when there is no Go tool chain, BenchmarkError when the build fails.
    """
    target = cache_dir() / name
    _run([go(), "build", "-trimpath", "-o", str(target), package], HERE / module, module)
    return target


def rust() -> Path:
    """The kube-rs peer, built in release mode. Raises as `build` does."""
    target = cache_dir() / "kube-rs-target"
    cargo = _tool("cargo", "https://rustup.rs", str(Path.home() / ".cargo/bin"))
    command = [cargo, "build", "--release", "--locked", "--quiet"]
    _run(command, HERE / "peers/kube-rs", "peers/kube-rs", {"CARGO_TARGET_DIR": str(target)})
    return target / "release" / "kube-rs-peer"


def java() -> list[str]:
    """The command of the java-operator-sdk peer, its jar built where sources are newer. Raises as `build` does."""
    runtime = _tool("java", "https://adoptium.net")
    source, directory = HERE / "peers/java-operator-sdk", cache_dir() / "java-operator-sdk"
    jar = directory / "java-operator-sdk-peer.jar"
    if not jar.exists() or jar.stat().st_mtime < _newest(source):
        maven = _tool("mvn", "https://maven.apache.org")
        _run(
            [maven, "-q", "-B", "-DskipTests", f"-DbuildDirectory={directory}", "package"], source, "java-operator-sdk"
        )
    return [runtime, "-jar", str(jar)]


@cache
def wheel() -> Path | None:
    """Our package as a compiled wheel holds it, built where it is not there yet; `None` where nothing compiles it.

    Raises BenchmarkError when the build fails.
    """
    compiler = sysconfig.get_config_var("CC") or "cc"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if shutil.which(compiler.split()[0]) is None or not header.exists() or not all(map(find_spec, _COMPILERS)):
        print("steersman is measured as plain Python: there is no C compiler, Python.h or mypyc", file=sys.stderr)
        return None
    root = HERE.parent
    pinned = [root / name for name in ("pyproject.toml", "hatch_build.py", "requirements/dev.txt")]
    packaged = [path for path in sorted((root / "src").rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    digest = sha256(sys.version.encode())
    for source in [*pinned, *packaged]:
        digest.update(f"{source.relative_to(root)}\0{source.stat().st_size}\0".encode() + source.read_bytes())
    built = cache_dir() / f"steersman-{digest.hexdigest()[:16]}"
    if not built.exists():
        _forget_old()
        cache_dir().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
            command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch]
            _run(command, root, "the wheel", {"STEERSMAN_COMPILE": "1"})
            with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as packed:
                packed.extractall(Path(scratch) / "package")
            bytecode(Path(scratch) / "package")
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.rename(Path(scratch) / "package", built)
    return built


def bytecode(*directories: Path) -> None:
    """Compile Python sources as pip does when it installs them; raises BenchmarkError when one does not compile.

    `PYTHONDONTWRITEBYTECODE` would otherwise make each process of a benchmark compile its modules.
    """
    _run([sys.executable, "-m", "compileall", "-q", *map(str, directories)], HERE, "the bytecode")


def _forget_old() -> None:
    """Drop the wheels of a week ago; a newer one may be in use."""
    for old in cache_dir().glob("steersman-*"):
        if time.time() - old.stat().st_mtime > 7 * 86400:
            shutil.rmtree(old, ignore_errors=True)


def _newest(directory: Path) -> float:
    return max(path.stat().st_mtime for path in directory.rglob("*") if path.is_file())


def _tool(name: str, where: str, elsewhere: str = "") -> str:
    found = shutil.which(name) or (shutil.which(name, path=elsewhere) if elsewhere else None)
    if found is None:
        raise NotMeasuredError(f"no {name!r} on PATH ({where})")
    return found


def _run(command: Sequence[str], directory: Path, what: str, environment: Mapping[str, str] | None = None) -> None:
    cache_dir().mkdir(parents=True, exist_ok=True)
    if not directory.is_dir():
        raise NotMeasuredError(f"{what} is not there")
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchmarkError(f"building {what} failed:\n{(done.stderr or done.stdout)[-3000:]}")


def versions() -> dict[str, str]:
    """Return the pinned versions of the peers from their lock files; peers without one are left out."""
    found = {
        "controller-runtime": _match("peers/go/go.mod", r"sigs\.k8s\.io/controller-runtime (v\S+)"),
        "client-go": _match("peers/go/go.mod", r"k8s\.io/client-go (v\S+)"),
        "kube-rs": _match("peers/kube-rs/Cargo.lock", r'name = "kube"\nversion = "([^"]+)"'),
        "java-operator-sdk": _match(
            "peers/java-operator-sdk/pom.xml", r"<artifactId>operator-framework</artifactId>\s*<version>([^<]+)<"
        ),
    }
    return {name: version for name, version in found.items() if version}


def _match(path: str, pattern: str) -> str:
    file = HERE / path
    found = re.search(pattern, file.read_text()) if file.exists() else None
    return found.group(1) if found else ""
