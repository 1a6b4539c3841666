"""The image that a project's Dockerfile describes, built by buildah on a base that is made of this Python alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from steersman.cli.packaging.build import commands

pytestmark = pytest.mark.slow

DOCKERFILE = Path(__file__).parents[2] / "operators" / "helloapp" / "Dockerfile"
BASE = "localhost/python-without-bytecode:1"
MODULES = "asyncio ssl json logging http.server email.message concurrent.futures importlib.metadata tomllib zipfile"
UNCOMPILED = f"""
import importlib, importlib.util, pathlib, sys, sysconfig
for name in {MODULES.split()}:
    importlib.import_module(name)
stdlib = sysconfig.get_path("stdlib")
files = [str(getattr(module, "__file__", "")) for module in list(sys.modules.values())]
sources = [file for file in files if file.startswith(stdlib) and file.endswith(".py")]
print(len(sources), [s for s in sources if not pathlib.Path(importlib.util.cache_from_source(s)).exists()])
"""
Buildah = Callable[..., str]


def libraries(programs: Iterable[Path]) -> set[Path]:
    """The shared libraries that the dynamic linker loads for these files."""
    found: set[Path] = set()
    for program in programs:
        told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, timeout=30, check=False).stdout
        found |= {Path(word) for word in told.split() if word.startswith("/")}
    return found


def root_of_this_python(root: Path) -> None:
    """A root directory with this Python and a shell, and no bytecode."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    skipped = shutil.ignore_patterns("__pycache__", "site-packages", "test", "idlelib", "config-*", "tkinter")
    target = root / "usr/local/lib" / stdlib.name
    shutil.copytree(stdlib, target, ignore=skipped)
    for source, where in ((python, "usr/local/bin/python"), (Path("/bin/sh"), "bin/sh")):
        (root / where).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source.resolve(), root / where)
    for library in libraries([python, Path("/bin/sh"), *(stdlib / "lib-dynload").glob("*.so")]):
        where = root / library.relative_to("/")
        where.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library.resolve(), where)
    (root / "tmp").mkdir()


@pytest.fixture
def buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Buildah:
    """Runs buildah with a storage of its own; returns the output."""
    if shutil.which("buildah") is None:
        pytest.skip("buildah is not installed: apt-get install buildah")
    (tmp_path / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\nrunroot = "{tmp_path}/run"\ngraphroot = "{tmp_path}/graph"\n'
    )
    for name, value in (
        ("STORAGE_DRIVER", "vfs"),
        ("BUILDAH_ISOLATION", "chroot"),
        ("CONTAINERS_STORAGE_CONF", str(tmp_path / "storage.conf")),
    ):
        monkeypatch.setenv(name, value)

    def run(*words: str | Path) -> str:
        line = [str(word) for word in words]
        done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False, env=os.environ)
        if done.returncode and "images" in line:
            pytest.skip(f"buildah cannot run here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("buildah", "images")
    return run


def test_the_image_has_bytecode_of_the_standard_library_and_its_layers_are_cached(
    buildah: Buildah, tmp_path: Path
) -> None:
    root_of_this_python(tmp_path / "root")
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY root /\nENV PATH=/usr/local/bin:/bin\n")
    buildah("buildah", "build", "--tag", BASE, "--file", tmp_path / "Dockerfile", tmp_path)

    (line,) = commands("buildah", "python-base:1", DOCKERFILE, DOCKERFILE.parent, arguments=(f"PYTHON={BASE}",))
    line[2:2] = ["--target", "base"]
    assert "Using cache" not in buildah(*line)
    assert "Using cache" in buildah(*line)

    container = buildah("buildah", "from", "docker.io/library/python-base:1").split()[-1]
    told = buildah("buildah", "run", "--user", "65532:65532", container, "python", "-c", UNCOMPILED).strip()
    count, _, uncompiled = told.partition(" ")
    assert int(count) > 100
    assert uncompiled == "[]"
