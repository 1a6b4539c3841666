"""The tests of kube-rs that need a cluster, with the embedded one; `hack/upstream.sh` builds them."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from steersman.testing import EmbeddedCluster

from .conftest import PROGRAMS, program

pytestmark = pytest.mark.slow

HOME = PROGRAMS / "kube-rs"
IMAGES = "images:\n  busybox: {}\n"
SKIPPED = {
    "pod_can_exec_and_write_to_stdin_from_node_proxy": "asks a kubelet at port 10250 of this machine",
}
"""Tests that are left out, and why; one that is no longer there must leave this list."""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    images = tmp_path_factory.mktemp("kube-rs") / "images.yaml"
    images.write_text(IMAGES)
    with EmbeddedCluster.start(node_kind="process", images=images, ready_after=None) as cluster:
        yield cluster


@pytest.mark.parametrize(("crate", "least"), [("kube", 5), ("kube-client", 20), ("kube-runtime", 3)])
def test_the_tests_of_a_crate_pass(fresh: EmbeddedCluster, crate: str, least: int):
    binary = program(HOME / f"{crate.replace('-', '_')}.test", "upstream.sh")
    skipped = [argument for text in SKIPPED for argument in ("--skip", text)]
    done = subprocess.run(
        [str(binary), "--ignored", "--test-threads=1", *skipped],
        cwd=HOME / crate,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(fresh.directory),
            "KUBECONFIG": str(fresh.kubeconfig),
        },
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert done.stdout.count("... ok\n") >= least, done.stdout


def test_every_test_that_is_skipped_is_there():
    names = ""
    for path in (HOME / "kube.test", HOME / "kube_client.test", HOME / "kube_runtime.test"):
        binary = program(path, "upstream.sh")
        names += subprocess.run([str(binary), "--list"], capture_output=True, text=True, check=True).stdout
    assert all(f"{text}: test" in names for text in SKIPPED)
