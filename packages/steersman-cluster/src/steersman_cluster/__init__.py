"""A Kubernetes cluster in one process: API server, built-in controllers and nodes, for development and tests.

    from steersman_cluster import DevCluster, Options

    async with DevCluster.start(Options(nodes=1)) as cluster, cluster.client() as client:
        ...

Any client (kubectl, client-go, the official Python client) connects to it over TLS, and Steersman's clients also
without a socket. One conformance suite compares it with the real kube-apiserver. Production is a real cluster.

The names here are loaded at their first use, so that the commands start fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the constant of typing costs an import

if TYPE_CHECKING:
    from steersman_cluster.cluster import DevCluster, Options

__all__ = ["DevCluster", "Options"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'steersman_cluster' has no attribute {name!r}")
    from steersman_cluster import cluster

    value = globals()[name] = {"DevCluster": cluster.DevCluster, "Options": cluster.Options}[name]
    return value
