"""Which replica of an operator led at what time, and what each replica wrote, from the API server's audit log."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from steersman.testing.cluster_http import MERGE, CallError, Unreachable
from steersman.testing.controlplane.audit import AuditEvent
from steersman.testing.real_node import RealNode
from tests.node.installation import Installed

_POD_UID = "authentication.kubernetes.io/pod-uid"
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_CHANGES_INTERVAL_SECONDS = 0.2
_BESIDE_THE_LEASE = ("leases", "events", "tokenreviews", "subjectaccessreviews")
"""The resources that a replica without leadership may write."""


@dataclass(frozen=True)
class Term:
    """The time in which one Pod wrote the Lease without another one in between."""

    pod_uid: str
    first: datetime
    """The response to its first write."""
    last: datetime
    """The response to its last write, which is the release after an orderly end."""


def pod_uid(event: AuditEvent) -> str:
    """Return the UID of the Pod to which the token of the request is bound."""
    return _extra(event, _POD_UID)


def credential(event: AuditEvent) -> str:
    """Return the identifier of the token of the request."""
    return _extra(event, _CREDENTIAL)


def _extra(event: AuditEvent, key: str) -> str:
    extra: dict[str, list[str]] = event.raw["user"].get("extra") or {}
    return next(iter(extra.get(key, ())), "")


def terms(operator: Installed, since: float = 0.0) -> list[Term]:
    """Return the terms of the operator's replicas in order; `since` is in seconds since the epoch."""
    since = max(since, operator.since)
    found: list[Term] = []
    for event in operator.node.audit_events(user=operator.user, resource="leases"):
        if not event.is_write or event.code >= 400 or event.name != operator.name or event.at.timestamp() < since:
            continue
        uid = pod_uid(event)
        if found and found[-1].pod_uid == uid:
            found[-1] = Term(uid, found[-1].first, event.at)
        else:
            found.append(Term(uid, event.at, event.at))
    return found


def longest_gap_seconds(operator: Installed, since: float) -> float:
    """Return the longest time between the last write of a leader and the first write of its successor."""
    found = terms(operator, since)
    gaps = [(after.first - before.last).total_seconds() for before, after in itertools.pairwise(found)]
    assert gaps, "the leader did not change"
    return max(gaps)


def writes(operator: Installed, since: float = 0.0) -> list[AuditEvent]:
    """Return the operator's writes that only a leader may send; `since` is in seconds since the epoch."""
    since = max(since, operator.since)
    return [
        event
        for event in operator.node.audit_events(user=operator.user)
        if event.is_write and event.resource not in _BESIDE_THE_LEASE and event.received.timestamp() >= since
    ]


def writes_of_deposed_leaders(operator: Installed) -> list[str]:
    """Return the writes that arrived from a Pod after another Pod had acquired the Lease."""
    found = terms(operator)
    wrong: list[str] = []
    for event in writes(operator):
        begun = [term for term in found if term.first <= event.received]
        if not begun or begun[-1].pod_uid != pod_uid(event):
            wrong.append(f"{event.received.isoformat()} {event.verb} {event.uri} by the Pod {pod_uid(event)}")
    return wrong


def refused_credentials(operator: Installed) -> list[str]:
    """Return the requests of any client whose token the API server did not accept (401)."""
    return [
        f"{event.verb} {event.uri} from {event.source} with {event.user_agent}"
        for event in operator.node.audit_events()
        if event.code == 401 and event.received.timestamp() >= operator.since
    ]


class Changes:
    """A HelloApp without Pods whose image changes five times a second, so that the leader writes all the time."""

    def __init__(self, node: RealNode, namespace: str) -> None:
        self._node = node
        self._namespace = namespace
        self.count = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Change the image while the block runs."""
        spec = {"image": "none:0", "size": 0}
        app = {"apiVersion": "apps.anupam.com/v1", "kind": "HelloApp", "metadata": {"name": "changed"}, "spec": spec}
        self._node.apply(app, namespace=self._namespace)
        ended = threading.Event()
        thread = threading.Thread(target=self._send, args=(ended,))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def deployed(self) -> bool:
        """Return whether the Deployment has the image of the last change."""
        deployment = self._node.get("deployment", "changed", namespace=self._namespace)
        assert deployment is not None
        containers: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
        return [one["image"] for one in containers] == [f"none:{self.count}"]

    def _send(self, ended: threading.Event) -> None:
        path = f"/apis/apps.anupam.com/v1/namespaces/{self._namespace}/helloapps/changed"
        with self._node.session() as api:
            while not ended.wait(_CHANGES_INTERVAL_SECONDS):
                try:
                    api.call("PATCH", path, {"spec": {"image": f"none:{self.count + 1}"}}, content_type=MERGE)
                except (CallError, *Unreachable):
                    continue  # The API server restarts.
                self.count += 1
