"""Which Pods a node admits: as a table."""

from typing import Any

import pytest

from steersman_cluster.nodes.pod_admission import rejection


def pod(*ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "ports": list(ports)}], **spec}}


def reason(obj: dict[str, Any], *others: dict[str, Any]) -> str:
    rejected = rejection(obj, others)
    return rejected.reason if rejected is not None else ""


HTTP = {"hostPort": 80, "containerPort": 8080}


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (HTTP, "NodePorts"),
        ({**HTTP, "hostIP": "127.0.0.1"}, "NodePorts"),
        ({**HTTP, "protocol": "UDP"}, ""),
        ({"hostPort": 81, "containerPort": 8080}, ""),
        ({"containerPort": 80}, ""),
    ],
)
def test_a_host_port_that_another_pod_has_is_refused(port: dict[str, Any], expected: str) -> None:
    assert reason(pod(port), pod(HTTP)) == expected


def test_the_same_host_port_at_different_addresses_is_no_conflict() -> None:
    assert reason(pod({**HTTP, "hostIP": "127.0.0.1"}), pod({**HTTP, "hostIP": "10.0.0.1"})) == ""


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        ("kernel.shm_rmid_forced", {}, ""),
        ("net/ipv4/tcp_syncookies", {}, ""),
        ("kernel.msgmax", {}, "SysctlForbidden"),
        ("net.ipv4.tcp_syncookies", {"hostNetwork": True}, "SysctlForbidden"),
        ("kernel.shm_rmid_forced", {"hostIPC": True}, "SysctlForbidden"),
        ("kernel.shm_rmid_forced", {"hostNetwork": True}, ""),
    ],
)
def test_only_safe_sysctls_of_the_pods_own_namespaces_are_admitted(
    name: str, spec: dict[str, Any], expected: str
) -> None:
    context = {"sysctls": [{"name": name, "value": "1"}]}
    assert reason(pod(securityContext=context, **spec)) == expected
