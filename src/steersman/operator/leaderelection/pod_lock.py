"""The lock of a Pod: at most one process of a Pod holds it, for one Lease, until the process ends.

A restarted container may take over its own lease only if the process before it has ended. The lock proves that: it is
an abstract Unix socket, whose name the kernel gives to one process of a network namespace and frees when that process
ends, however it ends. All containers of a Pod share one network namespace. A Pod has one UID, and an identity names
the UID only if its process holds the lock. So the holder of the lock knows that every other process with such an
identity has ended, and that the kernel has closed its connections. The lock tells nothing about other Pods.

Source: unix(7), "Abstract sockets".
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from typing import Final, Self

__all__ = ["PodLock", "new_identity"]

_DIGEST_BYTES: Final = 16


class PodLock:
    """The lock of this process's Pod for one Lease; `acquire` makes one, and the end of the process frees it."""

    __slots__ = ("_socket",)

    def __init__(self, held: socket.socket) -> None:
        self._socket = held

    @classmethod
    def acquire(cls, pod_uid: str, namespace: str, lease: str) -> Self | None:
        """Lock the Pod for this process.

        Args:
            pod_uid: The UID of the Pod that this process runs in.
            namespace: The namespace of the Lease.
            lease: The name of the Lease.

        Returns:
            The lock; `None` where another process of the Pod holds it, and where the platform has no such locks.
        """
        if sys.platform != "linux":
            return None
        # A name has 107 bytes at most; those of Leases are longer.
        digest = hashlib.blake2s(f"{namespace}/{lease}".encode(), digest_size=_DIGEST_BYTES).hexdigest()
        try:
            held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError:
            return None
        try:
            held.bind(f"\0steersman-{pod_uid}-{digest}")
        except OSError:
            held.close()
            return None
        return cls(held)

    def close(self) -> None:
        """Free the lock; only for a process that neither writes nor holds the lease any more."""
        self._socket.close()


def new_identity(pod_uid: str = "") -> str:
    """Return `<host name>_<Pod UID>_<random>`: no two processes have one identity.

    Args:
        pod_uid: The UID of the Pod, for a process that holds its lock; without it the identity names no Pod.
    """
    host = socket.gethostname()
    return "_".join(part for part in (host, pod_uid, os.urandom(6).hex()) if part)
