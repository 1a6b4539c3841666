"""Managers: the entries of `metadata.managedFields`, read, capped and written in the API server's order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from steersman_cluster.fields.sets import FieldSet, InvalidFieldsError, parse, sort, union
from steersman_cluster.objects import Object

__all__ = ["MAX_UPDATE_MANAGERS", "Manager", "cap", "decode", "encode", "invalid_entries", "is_reset"]

MAX_UPDATE_MANAGERS = 10
ANCIENT_CHANGES = "ancient-changes"


class Manager(msgspec.Struct, frozen=True):
    """One entry of `managedFields`: manager, operation, version, subresource, time and fields."""

    name: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: FieldSet

    @property
    def applied(self) -> bool:
        """Whether the entry is one of server-side apply."""
        return self.operation == "Apply"

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Entries with the same identity are one; appliers change their version without becoming another."""
        return self.name, self.operation, "" if self.operation == "Apply" else self.api_version, self.subresource

    @property
    def identifier(self) -> str:
        """The identity as the API server sorts by it."""
        name, operation, api_version, subresource = self.identity
        fields = {"manager": name, "operation": operation, "apiVersion": api_version, "subresource": subresource}
        return json.dumps({key: value for key, value in fields.items() if value}, separators=(",", ":"))

    @property
    def shown(self) -> str:
        """As conflicts name it: `"kubectl" using apps/v1`."""
        text = json.dumps(self.name, ensure_ascii=False)
        if self.subresource:
            text += f" with subresource {json.dumps(self.subresource, ensure_ascii=False)}"
        return text if self.applied else f"{text} using {self.api_version}"


def decode(entries: Any, *, trusted: bool = False) -> list[Manager]:
    """Read the entries of an object; raises `InvalidFieldsError` with the API server's reason.

    `trusted` entries are those that this package wrote: they are taken as they are.
    """
    found: dict[tuple[str, str, str, str], Manager] = {}
    for index, entry in enumerate(cast("list[Object]", entries or ())):
        if not trusted:
            _check(entry, index)
        manager = Manager(
            entry.get("manager") or "",
            entry["operation"],
            entry["apiVersion"],
            entry.get("subresource") or "",
            entry.get("time") or "",
            (entry.get("fieldsV1") or {}) if trusted else parse(entry.get("fieldsV1")),
        )
        found[manager.identity] = manager
    return list(found.values())


def _check(entry: Object, index: int) -> None:
    for name in ("manager", "time", "subresource", "apiVersion", "fieldsType"):
        if not isinstance(entry.get(name) or "", str):
            raise InvalidFieldsError(f"{name} must be a string")
    if entry.get("operation") not in ("Apply", "Update"):
        raise InvalidFieldsError("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise InvalidFieldsError("apiVersion must not be empty")
    kind = entry.get("fieldsType", "")
    if kind == "":
        raise InvalidFieldsError(f"missing fieldsType in managed fields entry {index}")
    if kind != "FieldsV1":
        raise InvalidFieldsError(f"invalid fieldsType {json.dumps(kind)} in managed fields entry {index}")


def invalid_entries(entries: Any) -> str:
    """Return why managed fields cannot be read, "" where they can: what a mutating webhook may have done to them."""
    try:
        decode(entries)
    except InvalidFieldsError as error:
        return str(error)
    except (AttributeError, TypeError):
        return "entries must be objects"
    return ""


def encode(managers: Iterable[Manager]) -> list[Object]:
    """Write the entries in the API server's order."""
    ordered = sorted(managers, key=lambda m: (m.operation, m.time, m.name, m.api_version, m.subresource))
    return [_entry(manager) for manager in ordered]


def _entry(manager: Manager) -> Object:
    entry: Object = {}
    if manager.name:
        entry["manager"] = manager.name
    entry["operation"] = manager.operation
    entry["apiVersion"] = manager.api_version
    if manager.time:
        entry["time"] = manager.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = manager.fields
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def cap(managers: list[Manager]) -> list[Manager]:
    """Merge the oldest updaters of each version into one bucket, until there are at most ten."""
    if len(managers) <= MAX_UPDATE_MANAGERS:
        return managers
    updaters = sorted((m for m in managers if not m.applied), key=lambda m: (m.time, m.identifier))
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managers
    kept = {manager.identity: manager for manager in managers}
    first: dict[str, Manager] = {}
    for manager in updaters:
        if excess <= 0:
            break
        bucket = Manager(ANCIENT_CHANGES, "Update", manager.api_version, "", manager.time, manager.fields)
        earlier = first.get(manager.api_version)
        if earlier is None:
            first[manager.api_version] = manager
            continue
        if bucket.identity not in kept:
            kept[bucket.identity] = replace(bucket, fields=kept.pop(earlier.identity).fields)
        merged = union(manager.fields, kept[bucket.identity].fields)
        del kept[manager.identity]
        kept[bucket.identity] = replace(bucket, fields=sort(merged))
        excess -= 1
    return list(kept.values())


def is_reset(entries: Any) -> bool:
    """Return whether a client removes all managers: an empty list, or one empty entry."""
    if entries is None:
        return False
    return not entries or (len(entries) == 1 and entries[0] in ({}, None))
