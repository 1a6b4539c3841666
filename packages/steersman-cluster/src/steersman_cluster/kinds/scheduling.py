"""PriorityClass and RuntimeClass."""

from __future__ import annotations

from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, required
from steersman_cluster.json_access import get_object, get_string
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "PriorityClass", "RuntimeClass"]

_MAX_USER_PRIORITY = 1_000_000_000
_SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


class PriorityClass(Plain):
    """The rules of PriorityClass objects."""

    namespaced = False
    generation = True
    revalidated = False
    columns = (
        columns.NAME,
        Column("Value", "integer", description="The priority."),
        Column("Global-Default", "boolean", description="Whether Pods without a class have it."),
        columns.AGE,
        Column("PreemptionPolicy", description="Whether its Pods may push others away."),
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        return [
            columns.name(obj),
            obj.get("value") or 0,
            obj.get("globalDefault") is True,
            columns.age(obj, now),
            get_string(obj, "preemptionPolicy"),
        ]

    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        # Counted on creation only.
        meta(obj)["generation"] = meta(old).get("generation", 1)

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        name, value = columns.name(obj), obj.get("value") or 0
        found: list[FieldError] = []
        if name.startswith("system-"):
            if _SYSTEM.get(name) != value:
                why = f"{name} is not a known system priority class" if name not in _SYSTEM else "value"
                text = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
                found.append(field_forbidden("metadata.name", text))
        elif value > _MAX_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
            found.append(field_forbidden("value", text))
        if (policy := obj.get("preemptionPolicy")) is not None:
            found += check.enum("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
        return found

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        found: list[FieldError] = []
        if (obj.get("value") or 0) != (old.get("value") or 0):
            found.append(field_forbidden("value", "may not be changed in an update."))
        return found + check.immutable("preemptionPolicy", obj.get("preemptionPolicy"), old.get("preemptionPolicy"))


class RuntimeClass(Plain):
    """The rules of RuntimeClass objects."""

    create_on_update = True
    unconditional_update = False

    namespaced = False
    columns = (columns.NAME, Column("Handler", description="Which runtime runs its Pods."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), get_string(obj, "handler"), columns.age(obj, now)]

    def errors(self, obj: Object) -> list[FieldError]:
        handler = get_string(obj, "handler")
        found = check.dns_label("handler", handler) if handler else [required("handler")]
        for name, value in get_object(get_object(obj, "overhead"), "podFixed").items():
            found += check.quantity(Path("overhead.podFixed").key(name), value)
        selector = get_object(get_object(obj, "scheduling"), "nodeSelector")
        return found + check.labels("scheduling.nodeSelector", selector)

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        return self.changes(obj, old)

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable("handler", obj.get("handler"), old.get("handler"))


STRATEGIES = {
    ("scheduling.k8s.io", "v1", "PriorityClass"): PriorityClass(),
    ("node.k8s.io", "v1", "RuntimeClass"): RuntimeClass(),
}
