"""The control plane fixture on real binaries: what users see of it, and that nothing of it stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from steersman.testing import (
    AuditPolicy,
    BinariesNotFoundError,
    CallError,
    Cluster,
    ComponentError,
    ControlPlane,
    KubectlError,
    PolicyRule,
    UnsupportedError,
    find_binaries,
)
from steersman.testing.controlplane.process import wait_until

pytestmark = pytest.mark.realcluster("kube-controller-manager", "kube-scheduler", "kubectl")

READ_PODS: PolicyRule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane.start(audit=AuditPolicy(bodies=("patch",))) as plane:
        plane.add_node("node-1", labels={"disk": "ssd"})
        yield plane


@pytest.fixture
def space(plane: ControlPlane) -> str:
    name = f"t-{os.urandom(4).hex()}"
    plane.create_namespace(name)
    return name


def eventually(holds: Callable[[], bool]) -> None:
    wait_until(holds, what="what the test waits for", deadline=time.monotonic() + 120, interval=0.01)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_deployment_becomes_pods_that_are_bound_and_ready(plane: ControlPlane, space: str) -> None:
    plane.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3", "-n", space)
    plane.kubectl("rollout", "status", "deployment/web", "-n", space, "--timeout=120s")

    sets = json.loads(plane.kubectl("get", "replicasets", "-n", space, "-o", "json"))["items"]
    pods = json.loads(plane.kubectl("get", "pods", "-n", space, "-l", "app=web", "-o", "json"))["items"]
    assert [one["status"]["readyReplicas"] for one in sets] == [3]
    assert [pod["spec"]["nodeName"] for pod in pods] == ["node-1"] * 3
    assert len({pod["status"]["podIP"] for pod in pods}) == 3

    plane.kubectl("delete", "deployment", "web", "-n", space, "--timeout=120s")
    plane.kubectl("wait", "pods", "-n", space, "-l", "app=web", "--for=delete", "--timeout=120s")


def test_a_job_completes(plane: ControlPlane, space: str) -> None:
    plane.kubectl("create", "job", "once", "--image=busybox", "-n", space)

    plane.kubectl("wait", "job/once", "-n", space, "--for=condition=Complete", "--timeout=120s")


def test_ready_replicas_follow_the_scale(plane: ControlPlane, space: str) -> None:
    plane.kubectl("create", "deployment", "web", "--image=nginx", "-n", space)
    for size in (4, 1):
        plane.kubectl("scale", "deployment/web", "-n", space, f"--replicas={size}")
        plane.kubectl(
            "wait", "deployment/web", "-n", space, f"--for=jsonpath={{.status.readyReplicas}}={size}", "--timeout=120s"
        )


def test_the_configuration_for_the_client_leads_to_the_same_server(plane: ControlPlane) -> None:
    assert plane.config.server == plane.server


def test_versions_agree(plane: ControlPlane) -> None:
    versions = json.loads(plane.kubectl("version", "-o", "json"))

    assert versions["clientVersion"]["gitVersion"] == versions["serverVersion"]["gitVersion"]


def test_a_service_account_may_do_what_it_was_granted_and_no_more(plane: ControlPlane, space: str) -> None:
    config = plane.service_account_kubeconfig("bot", namespace=space, rules=[READ_PODS])

    plane.kubectl("get", "pods", kubeconfig=config)
    with pytest.raises(KubectlError, match=f'User "system:serviceaccount:{space}:bot" cannot list resource "pods"'):
        plane.kubectl("get", "pods", "-n", "default", kubeconfig=config)
    assert config.stat().st_mode & 0o777 == 0o600


def test_a_user_carries_name_and_groups(plane: ControlPlane) -> None:
    config = plane.user_kubeconfig("jane", groups=["dev"], cluster_rules=[READ_PODS])

    plane.kubectl("get", "pods", "-A", kubeconfig=config)
    me = json.loads(plane.kubectl("auth", "whoami", "-o", "json", kubeconfig=config))["status"]["userInfo"]
    assert (me["username"], me["groups"]) == ("jane", ["dev", "system:authenticated"])


def test_an_expired_certificate_is_refused(plane: ControlPlane) -> None:
    config = plane.user_kubeconfig("old", cluster_rules=[READ_PODS], valid_for=timedelta(seconds=-1))

    with pytest.raises(KubectlError, match=r"(?i)unauthorized|expired|logged in"):
        plane.kubectl("get", "pods", kubeconfig=config)


def test_the_audit_log_tells_who_did_what(plane: ControlPlane, space: str) -> None:
    config = plane.service_account_kubeconfig(
        "writer", namespace=space, rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
    )
    plane.kubectl("create", "configmap", "it", kubeconfig=config)
    plane.kubectl("patch", "configmap", "it", "-p", '{"data": {"a": "b"}}', kubeconfig=config)
    user = f"system:serviceaccount:{space}:writer"

    create, patch = plane.audit_events(verbs=("create", "patch"), user=user, resource="configmaps")

    assert (create.verb, create.name, create.namespace, create.code) == ("create", "it", space, 201)
    assert create.user_agent.startswith("kubectl")
    assert "requestObject" not in create.raw
    assert patch.raw["requestObject"] == {"data": {"a": "b"}}
    received = plane.audit_events(stage="RequestReceived", user=user, resource="configmaps")
    assert [event.verb for event in received if event.is_write] == ["create", "patch"]


def test_a_killed_api_server_comes_back_with_its_data_on_the_same_port() -> None:
    with ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        plane.create_namespace("kept")
        before = plane.pids["kube-apiserver"]

        plane.kill_apiserver()

        assert not is_alive(before)
        with pytest.raises(KubectlError, match="refused"):
            plane.kubectl("get", "namespaces", "--request-timeout=5s")
        plane.start_apiserver()
        plane.start_apiserver()
        assert plane.kubectl("get", "namespace", "kept", "-o", "name") == "namespace/kept\n"
        assert plane.pids["kube-apiserver"] != before
        assert [event.name for event in plane.audit_events(verbs=("create",), resource="namespaces", user="admin")]


def test_controllers_nodes_and_pods_go_on_at_once_after_restarts(plane: ControlPlane, space: str) -> None:
    """Left alone, the controllers' watches would back off to half a minute by the third restart."""
    for _ in range(3):
        plane.restart_apiserver()

    plane.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2", "-n", space)
    plane.kubectl("rollout", "status", "deployment/web", "-n", space, "--timeout=25s")


def test_envtest_binaries_make_a_control_plane_without_controllers(tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (tmp_path / name).symlink_to(find_binaries().require(name, "The test"))
    envtest = find_binaries({"XDG_CACHE_HOME": str(tmp_path), "KUBEBUILDER_ASSETS": str(tmp_path)})

    with pytest.raises(BinariesNotFoundError, match="scheduler=True needs kube-scheduler"):
        ControlPlane.start(scheduler=True, binaries=envtest)
    with ControlPlane.start(binaries=envtest) as plane:
        plane.create_namespace("x")
        plane.add_node("node-1")
        # No controller creates ServiceAccounts or binds Pods here: they are not required, and the test binds the Pod.
        pod = {"spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "nginx"}]}}
        plane.call("POST", "/api/v1/namespaces/x/pods", {"metadata": {"name": "alone"}, **pod})
        plane.kubectl("wait", "pod/alone", "-n", "x", "--for=condition=Ready", "--timeout=120s")

        assert set(plane.pids) == {"etcd", "kube-apiserver"}


def test_a_wrong_flag_is_told_with_the_log_of_the_component() -> None:
    with pytest.raises(ComponentError, match=r"kube-apiserver ended with status 1(.|\n)*unknown flag: --frobnicate"):
        ControlPlane.start(apiserver_args=["--frobnicate"])


def test_a_directory_of_ones_own_is_kept(tmp_path: Path) -> None:
    with ControlPlane.start(directory=tmp_path / "here", controller_manager=False, scheduler=False) as plane:
        assert plane.kubeconfig.is_relative_to(tmp_path)

    assert plane.log("kube-apiserver").stat().st_size > 0
    assert plane.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_close_leaves_no_process_and_no_file() -> None:
    with ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        pids = list(plane.pids.values())
        assert len(pids) == 2

    plane.close()

    assert not any(map(is_alive, pids))
    assert not plane.directory.exists()


def test_a_killed_test_run_leaves_no_process_and_its_files_are_swept() -> None:
    script = (
        "import json, time; from steersman.testing.controlplane.control_plane import ControlPlane\n"
        "plane = ControlPlane.start()\n"
        "print(json.dumps([str(plane.directory), *plane.pids.values()]), flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        directory, *pids = json.loads(run.stdout.readline())
        assert all(map(is_alive, pids))
        os.kill(run.pid, signal.SIGKILL)

    eventually(lambda: not any(map(is_alive, pids)))
    with ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        assert not Path(directory).exists()
        assert plane.directory.parent == Path(tempfile.gettempdir())


def test_an_existing_cluster_has_the_same_interface(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = find_binaries().kubectl()
    assert kubectl is not None
    monkeypatch.setenv("PATH", f"{kubectl.parent}:{os.environ['PATH']}")
    space = f"e-{os.urandom(4).hex()}"
    cluster: Cluster
    with ControlPlane.existing(plane.kubeconfig) as cluster:
        cluster.create_namespace(space)
        account = cluster.service_account_kubeconfig("bot", namespace=space, rules=[READ_PODS])
        jane = cluster.user_kubeconfig("jane-2", groups=["dev"], cluster_rules=[READ_PODS])

        cluster.kubectl("get", "pods", kubeconfig=account)
        whoami = json.loads(cluster.kubectl("auth", "whoami", "-o", "json", kubeconfig=jane))
        assert whoami["status"]["userInfo"]["username"] == "jane-2"
        with pytest.raises(UnsupportedError, match=r"needs a control plane that was started"):
            cluster.restart_apiserver()
        cluster.delete_namespace(space)
    assert not cluster.directory.exists()


def test_an_existing_cluster_that_does_not_answer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    config.write_text(
        '{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],'
        ' "contexts": [{"name": "x", "context": {"cluster": "x"}}], "current-context": "x"}'
    )

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    with pytest.raises(CallError, match=r"GET /version failed.*refused"):
        ControlPlane.existing(config)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_fixtures_of_the_plugin_run_a_test_on_a_real_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.realcluster\n"
        "def test_it(control_plane, namespace):\n"
        "    control_plane.kubectl('run', 'alone', '--image=nginx', '-n', namespace)\n"
        "    control_plane.kubectl('wait', 'pod/alone', '-n', namespace, '--for=condition=Ready', '--timeout=120s')\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "steersman.testing.plugin",
            "-p",
            "no:cacheprovider",
            "-W",
            "error",
            "--cluster=real",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
