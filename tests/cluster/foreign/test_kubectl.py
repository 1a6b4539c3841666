"""kubectl with Pods that are processes: logs, exec, cp, attach and port-forward."""

import json
import re
import subprocess
import urllib.request

import pytest

from steersman.testing import KubectlError, available, find_binaries

SHELL = """
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: c, image: busybox, args: ["-c", "echo one; echo two; sleep 3600"]}
  - {name: d, image: busybox, args: ["-c", "echo three; sleep 3600"]}
"""
WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: web
    args: ["8124", "--bind", "0.0.0.0"]
    ports: [{name: http, containerPort: 8124}]
    readinessProbe: {tcpSocket: {port: 8124}, periodSeconds: 1}
"""


@pytest.fixture
def kubectl(cluster, namespace):
    if (reason := available("kubectl")) is not None:
        pytest.skip(reason)

    def call(*arguments, stdin=None):
        return cluster.kubectl("-n", namespace, *arguments, input=stdin)

    return call


def test_a_node_tells_what_its_pods_use(kubectl, namespace):
    kubectl("create", "-f", "-", stdin=SHELL)
    kubectl("wait", "--for=condition=Ready", "pod/shell", "--timeout=20s")
    (node,) = kubectl("get", "nodes", "-o", "name").split()
    summary = json.loads(kubectl("get", "--raw", f"/api/v1/nodes/{node.removeprefix('node/')}/proxy/stats/summary"))
    (pod,) = (pod for pod in summary["pods"] if pod["podRef"]["namespace"] == namespace)
    used = {container["name"]: container["memory"]["workingSetBytes"] for container in pod["containers"]}
    assert set(used) == {"c", "d"}
    assert all(0 < bytes_ < 1 << 30 for bytes_ in used.values())


def test_logs_and_commands(kubectl):
    kubectl("create", "-f", "-", stdin=SHELL)
    kubectl("wait", "--for=condition=Ready", "pod/shell", "--timeout=20s")
    kubectl("exec", "shell", "-c", "d", "--", "sh", "-c", "true")
    assert kubectl("logs", "shell", "-c", "c", "--tail=1") == "two\n"
    # kubectl requests the containers in the order of a Go map; the lines of each container keep their order.
    assert sorted(kubectl("logs", "shell", "--all-containers", "--prefix").splitlines()) == [
        "[pod/shell/c] one",
        "[pod/shell/c] two",
        "[pod/shell/d] three",
    ]
    with pytest.raises(KubectlError, match="container nope is not valid for pod shell"):
        kubectl("logs", "shell", "-c", "nope")
    assert kubectl("exec", "-i", "shell", "-c", "c", "--", "tr", "a-z", "A-Z", stdin="hello") == "HELLO"
    with pytest.raises(KubectlError) as failed:
        kubectl("exec", "shell", "-c", "c", "--", "sh", "-c", "echo no >&2; exit 7")
    assert failed.value.returncode == 7
    assert "command terminated with exit code 7" in failed.value.stderr
    kubectl("delete", "pod", "shell", "--now")


def test_a_forwarded_port_is_reached(cluster, namespace, kubectl):
    kubectl("create", "-f", "-", stdin=WEB)
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=20s")
    program = find_binaries().kubectl()
    with subprocess.Popen(
        [str(program), "--kubeconfig", str(cluster.kubeconfig), "-n", namespace, "port-forward", "pod/web", ":http"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as forward:
        try:
            assert forward.stdout is not None
            said = forward.stdout.readline()
            found = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) -> 8124", said)
            assert found, said
            for _ in range(3):
                with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/", timeout=10) as answer:
                    assert answer.status == 200
        finally:
            forward.terminate()
            forward.wait(10)
    kubectl("delete", "pod", "web", "--now")


def test_a_pod_is_debugged_by_a_container_that_is_added_to_it(kubectl):
    kubectl("create", "-f", "-", stdin=SHELL)
    kubectl("wait", "--for=condition=Ready", "pod/shell", "--timeout=20s")
    kubectl(
        *("debug", "shell", "--image=busybox", "-c", "debugger", "--profile=general", "--attach=false"),
        *("--env=COLOUR=green", "--", "sh", "-c", "echo $COLOUR; sleep 3600"),
    )
    running = "jsonpath={.status.ephemeralContainerStatuses[0].state.running}"
    kubectl("wait", f"--for={running}", "pod/shell", "--timeout=20s")
    assert kubectl("exec", "shell", "-c", "debugger", "--", "sh", "-c", "echo $COLOUR") == "green\n"
    assert kubectl("logs", "shell", "-c", "debugger") == "green\n"
    attached = kubectl(
        "debug", "shell", "--image=busybox", "-i", "-q", "--", "head", "-1", stdin="through the debugger\n"
    )
    assert attached == "through the debugger\n"
    kubectl("delete", "pod", "shell", "--now")
