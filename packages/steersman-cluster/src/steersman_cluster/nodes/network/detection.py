"""Tests whether this machine allows Pod networks, by starting one."""

from __future__ import annotations

import asyncio
import errno
import os

from steersman_cluster.nodes.network.cluster_network import ClusterNetwork, NetworkError
from steersman_cluster.nodes.process.sandbox import detect

__all__ = ["start_network"]

_HINT = "use network=loopback, where Pods share the network of this machine"
_ALLOW = (
    "allow user namespaces (the sysctls user.max_user_namespaces, kernel.unprivileged_userns_clone and "
    "kernel.apparmor_restrict_unprivileged_userns decide), run the cluster as root"
)


async def start_network() -> ClusterNetwork:
    """Start a network. Raises `NetworkError` with the reason and the solution if this machine does not allow it."""
    if await asyncio.to_thread(detect) == "plain":
        text = "network namespaces need a sandbox, and neither bubblewrap nor mount namespaces work here"
        raise NetworkError(errno.EPERM, f"{text}: {_HINT}")
    try:
        return await ClusterNetwork.start()
    except NetworkError as problem:
        said = problem.strerror or str(problem)
        text = f"network namespaces need user namespaces or root, and access to /dev/net/tun: {said}"
        way_out = _HINT if os.geteuid() == 0 else f"{_ALLOW}, or {_HINT}"
        raise NetworkError(problem.errno or errno.EPERM, f"{text}; {way_out}") from None
