"""Lease: holder, duration and times of a leader or node."""

from __future__ import annotations

from typing import Any

from steersman_cluster.errors import FieldError
from steersman_cluster.json_access import get_object, get_string
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path
from steersman_cluster.strategy import Column

__all__ = ["STRATEGIES", "Lease"]

_SPEC = Path("spec")


class Lease(Plain):
    """The rules of Lease objects."""

    create_on_update = True
    unconditional_update = False
    qualified_finalizers = False
    revalidated = False
    columns = (columns.NAME, Column("Holder", description="The holder of the lease."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), get_string(get_object(obj, "spec"), "holderIdentity"), columns.age(obj, now)]

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        found: list[FieldError] = []
        if (seconds := spec.get("leaseDurationSeconds")) is not None:
            found += check.positive(_SPEC / "leaseDurationSeconds", seconds)
        if (transitions := spec.get("leaseTransitions")) is not None:
            found += check.non_negative(_SPEC / "leaseTransitions", transitions)
        return found


STRATEGIES = {("coordination.k8s.io", "v1", "Lease"): Lease()}
