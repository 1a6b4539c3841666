"""One embedded cluster for all foreign clients, with a process node, and where their programs are."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steersman.testing import EmbeddedCluster

PROGRAMS = Path(os.environ.get("STEERSMAN_FOREIGN_BIN") or Path.home() / ".cache/steersman/foreign")
TOOLS = Path(os.environ.get("STEERSMAN_TOOLS") or Path.home() / ".cache/steersman/tools")
SOURCE = Path(__file__).parent / "go"
IMAGES = f"""
images:
  busybox: {{command: [sh]}}
  web: {{command: [{sys.executable}, -m, http.server]}}
"""


def program(path: Path, script: str) -> Path:
    """A program that a script of ours builds; skips where it is not built."""
    if not path.exists():
        pytest.skip(f"{path.name} is not built: run hack/{script} (needs Go)")
    return path


@pytest.fixture(scope="session")
def go_client() -> Path:
    digest = hashlib.sha256()
    for path in (*sorted(SOURCE.glob("*.go")), SOURCE / "go.mod", SOURCE / "go.sum"):
        digest.update(path.read_bytes())
    return program(PROGRAMS / f"client-{digest.hexdigest()[:16]}", "foreign.sh")


@pytest.fixture(scope="session")
def helm() -> Path:
    return program(TOOLS / "helm", "tools.sh")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """An embedded cluster whose Pods are processes."""
    images = tmp_path_factory.mktemp("foreign") / "images.yaml"
    images.write_text(IMAGES)
    with EmbeddedCluster.start(node_kind="process", images=images, ready_after=None) as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: EmbeddedCluster) -> Iterator[str]:
    name = f"foreign-{os.urandom(4).hex()}"
    cluster.create_namespace(name)
    yield name
    cluster.delete_namespace(name)


def run(cluster: EmbeddedCluster, *command: str | Path, timeout: float = 60.0, **environment: str) -> str:
    """Run a program as the administrator; returns its standard output, fails with all output."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(cluster.directory),
            "KUBECONFIG": str(cluster.kubeconfig),
            "KUBECACHEDIR": str(cluster.directory / "kubectl-cache"),
            **environment,
        },
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
