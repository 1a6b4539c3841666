"""The operator, installed by kustomize, by one file and by Helm from this directory, on a cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from steersman.testing import cache_root, eventually

from .support import PROJECT

TOOLS = cache_root().parent / "tools"


def tool(name: str) -> str:
    found = shutil.which(name) or (str(TOOLS / name) if (TOOLS / name).is_file() else None)
    if found is None:
        pytest.skip(f"there is no {name}; hack/tools.sh builds it")
    return found


def run(*command: str, kubeconfig: Path | None = None, home: Path | None = None, cwd: Path = PROJECT) -> str:
    places = {"HELM_CACHE_HOME": str(home), "HELM_CONFIG_HOME": str(home), "HELM_DATA_HOME": str(home)} if home else {}
    environment = {**os.environ, **places, **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def kubectl(cluster):
    if cluster._kubectl is None:
        pytest.skip("there is no kubectl; hack/controlplane/build.sh builds one")
    return str(cluster._kubectl)


def wait_for_the_operator(cluster, namespace, name="configmonitor"):
    eventually(
        lambda: (cluster.get("deploy", name, namespace=namespace) or {})["status"].get("readyReplicas"),
        within=180,
        what="Ready",
    )


@pytest.mark.slow
@pytest.mark.cluster(fresh=True)
def test_one_file_installs_it(cluster, tmp_path):
    program = (sys.executable, "-m", "steersman", "manifests", "configmonitor:operator")
    run(*program, f"--output-dir={tmp_path / 'config'}", f"--install={tmp_path / 'install.yaml'}")
    cluster.apply(tmp_path / "install.yaml")
    wait_for_the_operator(cluster, "configmonitor-system")


@pytest.mark.cluster(fresh=True)
def test_kustomize_installs_it(cluster, kubectl):
    tree = run(kubectl, "kustomize", "config/default")
    cluster.apply(tree)
    wait_for_the_operator(cluster, "configmonitor-system")


@pytest.mark.slow
@pytest.mark.cluster(fresh=True)
def test_helm_installs_operator_crd_and_demo_together(cluster, tmp_path):
    helm = tool("helm")
    options = {"kubeconfig": cluster.kubeconfig, "home": tmp_path}
    run(helm, "install", "demo", "demo/chart", "--namespace=demo", "--create-namespace", **options)
    wait_for_the_operator(cluster, "demo")
    wait_for_the_operator(cluster, "demo", "frontend")
    assert (
        cluster.get("configmonitor", "flaskapp-config-monitor", namespace="demo")["spec"]["configMap"]
        == "flaskapp-config"
    )
    run(helm, "upgrade", "demo", "demo/chart", "--namespace=demo", "--set=message=Welcome to Operators!", **options)
    assert cluster.get("configmap", "flaskapp-config", namespace="demo")["data"] == {
        "config.cfg": 'MSG="Welcome to Operators!"\n'
    }
    assert json.loads(run(helm, "list", "--namespace=demo", "-o=json", **options))[0]["status"] == "deployed"


def test_charts_have_nothing_that_helm_finds_fault_with():
    run(tool("helm"), "lint", "--strict", "chart", "demo/chart")
