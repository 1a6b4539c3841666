"""The admission of a Pod by its node; needed for Pods that bypass the scheduler, which makes the same checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from steersman_cluster.nodes.pod_state import Termination
from steersman_cluster.objects import Object, dig

__all__ = ["SAFE_SYSCTLS", "rejection"]

SAFE_SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
    )
)  # fmt: skip
"""The kernel parameters that Pods may set: those of the kubelet's default allow list."""
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - compared with the field


def rejection(pod: Object, others: Iterable[Object]) -> Termination | None:
    """Return why a Pod fails at once on its node, or `None`.

    Args:
        pod: The Pod.
        others: The Pods of the node that are not finished.
    """
    for sysctl in dig(pod, "spec", "securityContext", "sysctls", default=[]):
        name = str(sysctl["name"]).replace("/", ".")
        if name not in SAFE_SYSCTLS:
            return Termination("SysctlForbidden", f'Pod was rejected: forbidden sysctl: "{name}" not allowlisted')
        space = "hostNetwork" if name.startswith("net.") else "hostIPC"
        if dig(pod, "spec", space, default=False):
            return Termination(
                "SysctlForbidden", f'Pod was rejected: forbidden sysctl: "{name}" not allowed with {space} enabled'
            )
    wanted = _host_ports(pod)
    if wanted and any(_conflicts(one, taken) for other in others for taken in _host_ports(other) for one in wanted):
        problem = "node(s) didn't have free ports for the requested pod ports"
        return Termination("NodePorts", f"Pod was rejected: Predicate NodePorts failed: {problem}")
    return None


def _host_ports(pod: Object) -> list[tuple[str, str, int]]:
    """Return address, protocol and number of each host port."""
    return [
        (port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", int(port["hostPort"]))
        for container in dig(pod, "spec", "containers", default=[])
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def _conflicts(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or _ANY_ADDRESS in (one[0], other[0]))
