"""Identifies the operator's own Pod, so that no ConfigMonitor restarts the operator.

The Downward API sets `POD_NAME`, and `POD_NAMESPACE` or, in the ambassador layout, `res_namespace`. Without them the
host name and the files of the ServiceAccount identify the Pod. Outside a cluster there is no such Pod.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from steersman import Context, metadata_of
from steersman.k8s import Pod

from configmonitor.api.v1.configmonitor_types import ConfigMonitor
from configmonitor.plan import matches

__all__ = ["Itself", "itself", "selects_the_operator"]

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Itself(NamedTuple):
    """The identity of the operator's Pod."""

    name: str
    namespace: str


def itself(environ: Mapping[str, str] = os.environ, namespace_file: Path = NAMESPACE_FILE) -> Itself | None:
    """Return the operator's Pod; `None` outside a cluster."""
    namespace = environ.get("POD_NAMESPACE") or environ.get("res_namespace", "")
    name = environ.get("POD_NAME", "")
    if "KUBERNETES_SERVICE_HOST" in environ:
        name = name or environ.get("HOSTNAME", "")
        if not namespace and namespace_file.is_file():
            namespace = namespace_file.read_text().strip()
    return Itself(name, namespace) if name and namespace else None


async def selects_the_operator(monitor: ConfigMonitor, ctx: Context) -> bool:
    """Return whether the selector matches the operator's Pod, and so every replica of it."""
    own = itself()
    if own is None or monitor.metadata.namespace != own.namespace:
        return False
    pod = await ctx.fetch(metadata_of(Pod), own.name, namespace=own.namespace)
    return pod is not None and matches(monitor.spec.pod_selector, pod.metadata.labels)
