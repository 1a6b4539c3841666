"""Events: core/v1 and events.k8s.io/v1 share one collection.

They are stored as core/v1. events.k8s.io/v1 is stricter: it refuses counts and old time stamps of new Events, and
changes nothing but the series.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman_cluster.errors import FieldError, field_invalid, required
from steersman_cluster.json_access import get_object, get_string
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path, namespace_of
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "Event", "EventsEvent"]

_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_NAMES = {core: event for event, core in _RENAMED.items()}
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
# What Go always writes, in each version: these fields have no omitempty.
_CORE_ALWAYS: Mapping[str, Any] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_EVENTS_ALWAYS: Mapping[str, Any] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def _fill(obj: Object, always: Mapping[str, Any]) -> Object:
    for field, value in always.items():
        if obj.get(field) is None:
            obj[field] = dict[str, Any]() if value == {} else value
    return obj


class Event(Plain):
    """An Event of core/v1."""

    create_on_update = True
    columns = (
        Column("Last Seen", description="When it last happened."),
        Column("Type", description="Normal or Warning."),
        Column("Reason", description="What happened, in one word."),
        Column("Object", description="The object that the event is about."),
        Column("Subobject", description="Which part of it.", priority=1),
        Column("Source", description="The component that reports the event.", priority=1),
        Column("Message", description="What happened."),
        Column("First Seen", description="When it first happened.", priority=1),
        Column("Count", description="How often.", priority=1),
        Column("Name", format="name", description="The Event's own name.", priority=1),
    )
    selectable = (
        *(f"involvedObject.{field}" for field in _REFERENCE),
        "reason",
        "reportingComponent",
        "source",
        "type",
    )

    def default(self, obj: Object) -> None:
        _fill(obj, _CORE_ALWAYS)

    def fields(self, obj: Object) -> Mapping[str, str]:
        about = get_object(obj, "involvedObject")
        found = {f"involvedObject.{field}": get_string(about, field) for field in _REFERENCE}
        reporter = get_string(obj, "reportingComponent")
        found["reason"], found["type"] = get_string(obj, "reason"), get_string(obj, "type")
        found["reportingComponent"] = reporter
        found["source"] = get_string(get_object(obj, "source"), "component") or reporter
        return found

    def row(self, obj: Object, now: float) -> list[Any]:
        about, source, series = get_object(obj, "involvedObject"), get_object(obj, "source"), obj.get("series")
        first = columns.since(obj.get("firstTimestamp") or obj.get("eventTime"), now)
        last = columns.since(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else first
        count = obj.get("count") or 1
        if series is not None:
            last, count = columns.since(series.get("lastObservedTime"), now), series.get("count") or 0
        target, name = get_string(about, "kind").lower(), get_string(about, "name")
        origin = (
            get_string(source, "component") or get_string(obj, "reportingComponent"),
            get_string(source, "host") or get_string(obj, "reportingInstance"),
        )
        return [
            last,
            get_string(obj, "type"),
            get_string(obj, "reason"),
            f"{target}/{name}" if name else target,
            get_string(about, "fieldPath"),
            ", ".join(origin) if origin[1] else origin[0],
            get_string(obj, "message").strip(),
            first,
            count,
            columns.name(obj),
        ]

    def errors(self, obj: Object) -> list[FieldError]:
        return legacy_errors(obj, "reportingComponent")

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        return self.errors(obj)


def legacy_errors(obj: Object, reporter_field: str) -> list[FieldError]:
    """Return the errors that both versions share; `obj` is in the form of core/v1."""
    about, namespace = get_string(get_object(obj, "involvedObject"), "namespace"), namespace_of(obj)
    mismatch = field_invalid("involvedObject.namespace", about, "does not match event.namespace")
    if not obj.get("eventTime"):
        agrees = about == namespace or (not about and namespace == "default")
        return ([] if agrees else [mismatch]) + check.dns_subdomain("namespace", namespace)
    found = [mismatch] if not about and namespace not in ("default", "kube-system") else []
    reporter = get_string(obj, "reportingComponent")
    if not reporter:
        found.append(required(reporter_field))
    found += check.qualified_name(reporter_field, reporter)
    for field in ("reportingInstance", "action", "reason"):
        value = get_string(obj, field)
        if not value:
            found.append(required(field))
        if len(value.encode()) > 128:
            found.append(field_invalid(field, "", "can have at most 128 characters"))
    if len(get_string(obj, "message").encode()) > 1024:
        found.append(field_invalid("message", "", "can have at most 1024 characters"))
    return found + check.dns_subdomain("namespace", namespace)


class EventsEvent(Event):
    """An Event of events.k8s.io/v1, stored as one of core/v1, whose name refusals contain."""

    status_group = ""

    selectable = (*(f"regarding.{field}" for field in _REFERENCE), "reason", "reportingController", "type")

    def default(self, obj: Object) -> None:
        _fill(obj, _EVENTS_ALWAYS)

    def to_storage(self, obj: Object) -> Object:
        """Return the object in the version that is stored."""
        return _fill(
            {_RENAMED.get(field, field): value for field, value in obj.items()} | {"apiVersion": "v1"}, _CORE_ALWAYS
        )

    def from_storage(self, obj: Object) -> Object:
        """Return the stored object in this version."""
        made = {_CORE_NAMES.get(field, field): value for field, value in obj.items()} | {
            "apiVersion": "events.k8s.io/v1"
        }
        for field in ("reportingController", "reportingInstance"):
            if not made.get(field):
                made.pop(field, None)
        return _fill(made, _EVENTS_ALWAYS)

    def fields(self, obj: Object) -> Mapping[str, str]:
        about = get_object(obj, "regarding")
        found = {f"regarding.{field}": get_string(about, field) for field in _REFERENCE}
        for field in ("reason", "reportingController", "type"):
            found[field] = get_string(obj, field)
        return found

    def row(self, obj: Object, now: float) -> list[Any]:
        return super().row(self.to_storage(obj), now)

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        core = self.to_storage(obj)
        found = legacy_errors(core, "reportingController") + _series(core)
        if not core.get("eventTime"):
            found.append(required("eventTime"))
        if (kind := get_string(core, "type")) not in ("Normal", "Warning"):
            found.append(field_invalid("type", "", f"has invalid value: {kind}"))
        return found + [
            field_invalid(field, "", "needs to be unset")
            for field in ("firstTimestamp", "lastTimestamp", "count", "source")
            if core.get(field)
        ]

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        new, before = self.to_storage(obj), self.to_storage(old)
        found = legacy_errors(new, "reportingController") + metadata.repeated_update(obj, old)
        if new.get("series") != before.get("series"):
            found += _series(new)
        return found + _event_changes(new, before)


def _series(core: Object) -> list[FieldError]:
    series = core.get("series")
    if series is None:
        return []
    found: list[FieldError] = []
    if (series.get("count") or 0) < 2:
        found.append(field_invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        found.append(required("series.lastObservedTime"))
    return found


_FIXED = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type",
    "eventTime", "action", "related", "reportingController", "reportingInstance",
)  # fmt: skip


def _event_changes(new: Object, before: Object) -> list[FieldError]:
    found: list[FieldError] = []
    for field in _FIXED:
        key = "reportingComponent" if field == "reportingController" else field
        value = new.get(key)
        if (value or None) == (before.get(key) or None):
            continue
        shown = _shown(key, value)
        found.append(field_invalid(Path(field), shown, check.IMMUTABLE))
    return found


def _shown(key: str, value: Any) -> Any:
    """References as the server's internal form has them."""
    if key in ("involvedObject", "related") and value is not None:
        names = ("Kind", "Namespace", "Name", "UID", "APIVersion", "ResourceVersion", "FieldPath")
        return {name: get_string(value, field) for name, field in zip(names, _REFERENCE, strict=True)}
    if key == "source":
        source: Object = value or {}
        return {"Component": get_string(source, "component"), "Host": get_string(source, "host")}
    return (value or "") if key in ("message", "reason", "type", "action") else value


STRATEGIES = {
    ("", "v1", "Event"): Event(),
    ("events.k8s.io", "v1", "Event"): EventsEvent(),
}
