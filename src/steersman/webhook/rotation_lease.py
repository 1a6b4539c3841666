"""The Lease of the replica that rotates the certificates.

It saves the API server the same requests from every replica. It does not protect against concurrent steps: every write
has the resourceVersion that it was decided on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from steersman.client import AlreadyExists, Client, Conflict, NotFound
from steersman.models import Dynamic, MergePatch, View, dynamic

__all__ = ["RotationLease"]

_LEASE: Final[View[Dynamic]] = dynamic("coordination.k8s.io/v1", "Lease")
_TIMEOUT_SECONDS: Final = 10.0


class RotationLease:
    """One replica's use of the Lease. `monotonic` arguments are seconds of this process's clock."""

    def __init__(self, client: Client, namespace: str, name: str, identity: str, duration: float) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._duration = duration
        self._record = ""
        self._changed = 0.0
        self._ours = False

    async def acquire(self, monotonic: float, now: datetime) -> bool:
        """Acquire or renew the Lease; return whether this replica holds it. Raises errors of `Client`."""
        try:
            found = await self._client.get(_LEASE, self._name, namespace=self._namespace, timeout=_TIMEOUT_SECONDS)
        except NotFound:
            return await self._create(now)
        version = found.metadata.resource_version
        spec = cast("Mapping[str, Any]", found.body.get("spec") or {})
        holder = str(spec.get("holderIdentity") or "")
        if holder not in ("", self._identity):
            if version != self._record:  # another replica renewed it; the clocks of replicas are not compared
                self._record, self._changed = version, monotonic
                return False
            if monotonic - self._changed < max(self._duration, _seconds(spec)):
                return False
        transitions = spec.get("leaseTransitions")
        spec = self._spec(now, (transitions if isinstance(transitions, int) else 0) + (holder != self._identity))
        return await self._write(version, spec)

    async def release(self, now: datetime) -> None:
        """Release the Lease if this replica holds it. Raises errors of `Client`."""
        if not self._ours:
            return
        self._ours = False
        try:
            found = await self._client.get(_LEASE, self._name, namespace=self._namespace, timeout=_TIMEOUT_SECONDS)
        except NotFound:
            return
        spec = cast("Mapping[str, Any]", found.body.get("spec") or {})
        if spec.get("holderIdentity") == self._identity:
            await self._write(found.metadata.resource_version, {"holderIdentity": None, "renewTime": _micro(now)})
            self._ours = False

    async def _create(self, now: datetime) -> bool:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec(now, 0),
        }
        try:
            await self._client.create(lease, kind=_LEASE, timeout=_TIMEOUT_SECONDS)
        except AlreadyExists:
            return False
        self._ours = True
        return True

    async def _write(self, version: str, spec: Mapping[str, Any]) -> bool:
        patch = MergePatch({"metadata": {"resourceVersion": version}, "spec": spec})
        try:
            await self._client.patch(_LEASE, self._name, patch, namespace=self._namespace, timeout=_TIMEOUT_SECONDS)
        except (Conflict, NotFound):
            self._ours = False
            return False
        self._ours = True
        return True

    def _spec(self, now: datetime, transitions: int) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._duration)),
            "renewTime": _micro(now),
            "leaseTransitions": transitions,
        }
        if not self._ours:
            spec["acquireTime"] = _micro(now)
        return spec


def _seconds(spec: Mapping[str, Any]) -> float:
    duration = spec.get("leaseDurationSeconds")
    return float(duration) if isinstance(duration, int) else 0.0


def _micro(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
