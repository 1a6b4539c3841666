"""Pods that SidecarSet's webhook injects a container into, and their creation without a pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from steersman.testing.cluster_http import CallError, Unreachable
from steersman.testing.real_node import RealNode
from steersman.testing.real_node.configuration import PAUSE_IMAGE

WEBHOOK_SECONDS = 10
"""The time-out of a call of a webhook, in its configuration."""

SIDECAR_SET = {
    "apiVersion": "apps.kruise.io/v1alpha1",
    "kind": "SidecarSet",
    "metadata": {"name": "second-container"},
    "spec": {
        "selector": {"matchLabels": {"app": "injected"}},
        "containers": [{"name": "sidecar", "image": PAUSE_IMAGE}],
    },
}


def injected_pod(name: str) -> dict[str, Any]:
    """Return a Pod that SIDECAR_SET selects."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "injected"}},
        "spec": {"containers": [{"name": "main", "image": PAUSE_IMAGE}], "terminationGracePeriodSeconds": 0},
    }


class Creations:
    """Requests to create a Pod, one after the other; each passes admission and is not stored (dry run)."""

    def __init__(self) -> None:
        self.injected = 0
        self.failures: list[str] = []
        self.longest = 0.0

    @contextmanager
    def running(self, node: RealNode, namespace: str) -> Iterator[None]:
        """Send requests while the block runs."""
        ended = threading.Event()
        thread = threading.Thread(target=self._send, args=(node, namespace, ended))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _send(self, node: RealNode, namespace: str, ended: threading.Event) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        with node.session(timeout=2 * WEBHOOK_SECONDS) as api:
            while not ended.is_set():
                began = time.monotonic()
                try:
                    pod = api.call("POST", path, injected_pod("never-stored"))
                except (CallError, *Unreachable) as error:
                    self.failures.append(str(error))
                    continue
                self.longest = max(self.longest, time.monotonic() - began)
                if [one["name"] for one in pod["spec"]["containers"]] == ["main", "sidecar"]:
                    self.injected += 1
                else:
                    self.failures.append("a Pod without the sidecar")
