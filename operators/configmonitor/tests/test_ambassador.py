"""The ambassador layout: the operator behind a real `kubectl proxy`, which has the credentials and may come and go."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from steersman.manifests import rules_for
from steersman.testing import BinariesNotFoundError, EmbeddedCluster, eventually, find_binaries

from configmonitor import operator

from .support import CRD, PROJECT, Scenario, config_map, deployment, monitor

AMBASSADOR = PROJECT / "config" / "ambassador"
SETTINGS = config_map("settings", colour="blue")


@pytest.fixture(scope="module")
def kubectl():
    try:
        found = find_binaries().kubectl()
    except BinariesNotFoundError:
        found = None
    if found is None:
        pytest.skip("there is no kubectl to be the proxy; hack/controlplane/build.sh builds one")
    return found


class Proxy:
    """`kubectl proxy` on a port that stays the same over its restarts."""

    def __init__(self, kubectl: Path, kubeconfig: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._command = [str(kubectl), "--kubeconfig", str(kubeconfig), "proxy", f"--port={self.port}"]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        assert b"Starting to serve" in self._process.stdout.readline()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        self._process.stdout.close()


@contextmanager
def behind(proxy: Proxy, namespace: str, log: Path):
    """The operator as the second container runs it: a plain URL, and its namespace in `res_namespace`."""
    command = ["run", "configmonitor:operator", f"--server={proxy.url}", "--namespace=$(res_namespace)"]
    command += ["--lease-namespace=$(res_namespace)", "--metrics-bind-address=0", "--health-probe-bind-address=0"]
    environment = {**os.environ, "res_namespace": namespace, "KUBECONFIG": "/nowhere"}
    words = [word.replace("$(res_namespace)", namespace) for word in command]  # as the kubelet does
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "steersman", *words],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
        )
    try:
        yield process
    except BaseException:
        print(log.read_text()[-4000:])
        raise
    finally:
        process.terminate()
        process.wait(30)


def one_namespace(cluster, scenario, kubectl, tmp_path):
    """A proxy with the rights of the ambassador's Role, in front of the cluster."""
    rules = next(d for d in yaml.safe_load_all((AMBASSADOR / "rbac.yaml").read_text()) if d["kind"] == "Role")["rules"]
    kubeconfig = cluster.user_kubeconfig("ambassador", namespace=cluster.namespace, rules=rules)
    return Proxy(kubectl, kubeconfig)


def follows(scenario, before, colour):
    scenario.change("settings", colour=colour)
    return scenario.replaced(before)


def run_steps(cluster, kubectl, tmp_path, restarts):
    cluster.apply(CRD)
    scenario = Scenario(cluster)
    scenario.apply(SETTINGS, deployment("web"), monitor("web"))
    pods = scenario.running(2)
    proxy = one_namespace(cluster, scenario, kubectl, tmp_path)
    try:
        with behind(proxy, cluster.namespace, tmp_path / "operator.log") as process:
            scenario.watching("web")
            pods = follows(scenario, pods, "red")
            for number in range(restarts):
                # While the proxy is down the operator sees nothing; it has to find out afterwards.
                proxy.kill()
                scenario.change("settings", colour=f"colour-{number}")
                assert scenario.pods() == pods
                proxy.start()
                pods = scenario.replaced(pods)
                pods = follows(scenario, pods, f"colour-{number}-too")
            assert process.poll() is None
        calls = cluster.audit.calls(user="ambassador")
        assert any(e.verb == "watch" and e.resource == "configmaps" for e in calls)
        assert len(scenario.evictions("ambassador")) == 2 * (1 + 2 * restarts)
        assert not cluster.audit.refused("ambassador")
    finally:
        proxy.kill()


@pytest.mark.slow
def test_the_operator_works_behind_a_proxy_that_is_restarted(cluster, kubectl, tmp_path):
    run_steps(cluster, kubectl, tmp_path, restarts=1)


@pytest.mark.realcluster("kube-controller-manager")
def test_the_operator_works_behind_a_proxy_of_the_real_api_server(cluster, kubectl, tmp_path):
    run_steps(cluster, kubectl, tmp_path, restarts=2)


@pytest.mark.chaos
@pytest.mark.realcluster("kube-controller-manager")
def test_watches_live_for_minutes_behind_a_proxy(cluster, kubectl, tmp_path):
    """Longer than any idle timeout on the way: after each silence the next change is seen at once."""
    cluster.apply(CRD)
    scenario = Scenario(cluster)
    scenario.apply(SETTINGS, deployment("web"), monitor("web"))
    pods = scenario.running(2)
    proxy = one_namespace(cluster, scenario, kubectl, tmp_path)
    try:
        with behind(proxy, cluster.namespace, tmp_path / "operator.log"):
            scenario.watching("web")
            for number in range(3):
                time.sleep(float(os.environ.get("STEERSMAN_AMBASSADOR_SILENCE", "100")))
                before = time.monotonic()
                pods = follows(scenario, pods, f"colour-{number}")
                assert time.monotonic() - before < 10
        assert len(scenario.evictions("ambassador")) == 6
    finally:
        proxy.kill()


def test_the_roles_of_the_ambassador_are_what_the_operator_declares():
    role = next(d for d in yaml.safe_load_all((AMBASSADOR / "rbac.yaml").read_text()) if d["kind"] == "Role")
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    declared = {
        (group, resource, verb)
        for rule in rules_for(operator)
        for group in rule.api_groups
        for resource in rule.resources
        for verb in rule.verbs
    }
    leases = {("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "patch")}
    assert granted == declared | leases


@pytest.mark.slow
def test_the_manifests_run_as_they_are(kubectl):
    """Two containers in one Pod, as processes of a node: the proxy with the Pod's own token, and the operator."""
    with socket.socket() as port:
        if port.connect_ex(("127.0.0.1", 8001)) == 0:
            pytest.skip("port 8001, where the manifests have the proxy, is taken on this machine")
    with tempfile.TemporaryDirectory() as scratch:
        images = Path(scratch) / "images.yaml"
        steersman = Path(sys.executable).with_name("steersman")
        found = {
            "kubectl": {"env": {"PATH": f"{kubectl.parent}:/usr/bin:/bin"}},
            "configmonitor": {
                "workingDir": str(PROJECT),
                "env": {"PATH": f"{steersman.parent}:/usr/bin:/bin", "PYTHONPATH": str(PROJECT)},
            },
            "app": {"command": ["sleep", "1000"]},
        }
        images.write_text(yaml.safe_dump({"images": found}))
        with EmbeddedCluster.start(node_kind="process", images=images) as cluster:
            cluster.create_namespace("ambassador")
            with cluster.test("ambassador"):
                scenario = Scenario(cluster)
                cluster.apply(CRD, AMBASSADOR, SETTINGS, deployment("web"), monitor("web"))
                try:
                    scenario.watching("web")
                    eventually(
                        lambda: cluster.get("deploy", "configmonitor-ambassador")["status"]["readyReplicas"],
                        what="Ready",
                    )
                    follows(scenario, scenario.running(2), "red")
                except BaseException:
                    for pod in cluster.list("pods"):
                        print(pod["metadata"]["name"], pod["status"])
                        if "ambassador" in pod["metadata"]["name"]:
                            for container in ("proxy", "operator"):
                                print(
                                    cluster.kubectl(
                                        "logs", pod["metadata"]["name"], "-c", container, "-n", "ambassador"
                                    )
                                )
                    raise
