"""Requests to the real API server for the tests of manifests: strict field validation, and its warnings."""

from __future__ import annotations

import json
import time
from typing import Any

from steersman.testing import ControlPlane, EmbeddedCluster
from steersman.testing.controlplane.control_plane import ApiSession
from steersman.testing.controlplane.process import wait_until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Strict:
    """An API session with strict field validation that returns responses and warnings."""

    def __init__(self, plane: Any) -> None:
        assert isinstance(plane, ControlPlane | EmbeddedCluster)
        self.session: ApiSession = plane.session()

    def send(self, method: str, path: str, body: dict[str, Any], *, dry: bool = True) -> tuple[int, str, list[str]]:
        """The code, the message or "", and the warnings."""
        query = "?fieldValidation=Strict" + ("&dryRun=All" if dry else "")
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.session._send(method, path + query, json.dumps(body).encode(), {"Content-Type": kind})  # pyright: ignore
        content = json.loads(answer.read())
        return answer.status, content.get("message", ""), answer.headers.get_all("Warning") or []

    def install(self, crd: dict[str, Any]) -> None:
        """Create a CRD, which must go without a warning, and wait until its kind is served."""
        assert self.send("POST", CRDS, crd, dry=False) == (201, "", [])
        name = crd["metadata"]["name"]
        path = f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{crd['spec']['names']['plural']}"

        def served() -> bool:
            conditions = self.session.call("GET", f"{CRDS}/{name}")["status"].get("conditions") or []
            return any(c["type"] == "Established" and c["status"] == "True" for c in conditions) and self.session.ready(
                path
            )

        wait_until(served, what=f"{name} to be served", deadline=time.monotonic() + 120, interval=0.02)
