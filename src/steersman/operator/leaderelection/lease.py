"""The record of the election as a `coordination.k8s.io/v1` Lease, read and written through a client without the gate.

Writes are merge patches with the resourceVersion of the read (an optimistic lock). Labels, owner references and fields
of newer API versions stay unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from steersman.client import Client, NotFound
from steersman.models import Dynamic, MergePatch, View, dynamic
from steersman.operator.leaderelection.state import LeaseRecord

__all__ = ["LEASE", "ApiLease"]

LEASE: Final[View[Dynamic]] = dynamic("coordination.k8s.io/v1", "Lease")

_TIMEOUT: Final = 5.0


class ApiLease:
    """One Lease of one namespace, as `LeaseApi`."""

    def __init__(self, client: Client, name: str, namespace: str) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace

    async def read(self) -> LeaseRecord | None:
        """Return the current record of the API server; `None` if there is no Lease."""
        try:
            found = await self._client.get(LEASE, self._name, namespace=self._namespace, timeout=_TIMEOUT)
        except NotFound:
            return None
        return record_of(found.body)

    async def create(self, record: LeaseRecord) -> LeaseRecord:
        """Create the Lease; raises `AlreadyExists` if another candidate was faster."""
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec_of(record),
        }
        stored = await self._client.create(lease, kind=LEASE, timeout=_TIMEOUT)
        return record_of(stored.body)

    async def write(self, record: LeaseRecord) -> LeaseRecord:
        """Overwrite the record with `record.version`; raises `Conflict` if it has changed."""
        patch = MergePatch({"metadata": {"resourceVersion": record.version}, "spec": spec_of(record)})
        stored = await self._client.patch(LEASE, self._name, patch, namespace=self._namespace, timeout=_TIMEOUT)
        return record_of(stored.body)


def spec_of(record: LeaseRecord) -> dict[str, Any]:
    """Return the JSON of a record; a released lease has no holder, as in client-go."""
    return {
        "holderIdentity": record.holder or None,
        "leaseDurationSeconds": int(record.duration),
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.transitions,
    }


def record_of(body: Mapping[str, Any]) -> LeaseRecord:
    """Parse a Lease of any writer; missing fields and those of another type count as empty."""
    spec = cast("Mapping[str, Any]", body.get("spec") or {})
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        duration=float(duration) if isinstance(duration, int) else 0.0,
        acquired=str(spec.get("acquireTime") or ""),
        renewed=str(spec.get("renewTime") or ""),
        transitions=transitions if isinstance(transitions, int) else 0,
        version=str(cast("Mapping[str, Any]", body.get("metadata") or {}).get("resourceVersion") or ""),
    )
