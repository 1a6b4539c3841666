"""controller-runtime's own integration suites, with the embedded cluster as the existing one.

`hack/upstream.sh` builds them. Each suite gets a cluster of its own, without controllers and nodes, as envtest's is.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from steersman.testing import EmbeddedCluster

from .conftest import PROGRAMS, program

pytestmark = pytest.mark.slow

HOME = PROGRAMS / "controller-runtime"
TIMEOUT_SECONDS = 300

SUITES = (
    "builder",
    "cache",
    "client",
    "cluster",
    "controller",
    "controller/controllerutil",
    "handler",
    "internal/controller",
    "internal/recorder",
    "manager",
    "metrics/filters",
    "reconcile",
    "source",
    "webhook",
)
SKIPPED: dict[str, dict[str, str]] = {
    "internal/controller": {
        "should not leak goroutines when manager is stopped with warmup runnable": "stops its API server to end the "
        "connections that it then counts; an existing cluster goes on",
    },
}
"""Specs that are left out, by suite, and why; a spec that is no longer there must leave this list."""

ALONE = {"manager/internal/integration": ("controller warmup enabled", "controller warmup not enabled")}
"""Suites whose specs create the same objects and expect an empty cluster each."""


def suite(package: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a suite against a fresh cluster, in the directory of its package, where its test data is."""
    directory = HOME / "pkg" / package
    binary = program(directory / "suite.test", "upstream.sh")
    with EmbeddedCluster.start(controllers=False, nodes=0) as cluster:
        return subprocess.run(
            [str(binary), "-test.v", *arguments],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(cluster.directory),
                "KUBECONFIG": str(cluster.kubeconfig),
                "USE_EXISTING_CLUSTER": "true",
                **environment,
            },
        )


def specs(package: str, report: Path, *arguments: str) -> list[dict[str, Any]]:
    """The specs of a Ginkgo suite as its report tells of them; fails where one of them failed, or none ran."""
    done = suite(package, "-ginkgo.no-color", f"-ginkgo.json-report={report}", *arguments)
    assert report.exists(), done.stdout[-4000:] + done.stderr
    found = [spec for part in json.loads(report.read_text()) for spec in part["SpecReports"] or ()]
    failed = [f"{name(spec)}\n{spec['Failure']['Message']}" for spec in found if spec["State"] not in NOT_FAILED]
    assert not failed, "\n\n".join(failed)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert any(spec["State"] == "passed" and spec["LeafNodeType"] == "It" for spec in found)
    return found


NOT_FAILED = ("passed", "pending", "skipped")


def name(spec: dict[str, Any]) -> str:
    return " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])


@pytest.mark.parametrize("package", SUITES)
def test_a_suite_of_controller_runtime_passes(package: str, tmp_path: Path):
    skipped = SKIPPED.get(package, {})
    found = specs(package, tmp_path / "report.json", *(f"-ginkgo.skip={re.escape(text)}" for text in skipped))
    left_out = {name(spec) for spec in found if spec["State"] == "skipped"}
    assert all(any(text in one for one in left_out) for text in skipped), f"no such spec: {skipped}"
    assert skipped or not left_out


@pytest.mark.parametrize(("package", "spec"), [(package, spec) for package, names in ALONE.items() for spec in names])
def test_a_spec_of_controller_runtime_passes(package: str, spec: str, tmp_path: Path):
    specs(package, tmp_path / "report.json", f"-ginkgo.focus={re.escape(spec)}$")


def test_the_rest_mapper_of_controller_runtime_passes():
    # Without aggregated discovery it starts an API server of Kubernetes 1.28, with a feature gate switched off.
    package, skipped = "client/apiutil", "TestLazyRestMapperProvider/aggregatedDiscovery=false"
    done = suite(package, f"-test.skip=^{skipped}$")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "--- PASS: TestLazyRestMapperProvider/aggregatedDiscovery=true" in done.stdout


def test_every_suite_that_was_built_is_run():
    program(HOME / ".built", "upstream.sh")
    built = {str(path.parent.relative_to(HOME / "pkg")) for path in HOME.glob("pkg/**/suite.test")}
    assert built == {*SUITES, *ALONE, "client/apiutil"}
