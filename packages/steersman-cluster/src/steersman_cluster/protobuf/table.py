"""The table of messages: loaded once, on the first protobuf request, and linked into small tuples."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

__all__ = ["Field", "Message", "message_of"]

_META_KINDS = "meta.k8s.io/v1"


class Field(NamedTuple):
    """One field: its number, its JSON name (`""` if its fields are inline in the parent), and its type."""

    number: int
    name: str
    kind: str
    """`s` string, `b` bool, `i` integer, `d` double, `y` bytes, a special form, or the name of a message."""
    pointer: bool
    """Whether a zero value is sent; plain fields omit it."""
    omit: bool
    repeated: bool
    map: bool
    wrapped: bool
    """Whether the list is a message of its own with the items as field 1 (`ExtraValue`, `Verbs`)."""


class Message(NamedTuple):
    """One type of object or part."""

    name: str
    fields: tuple[Field, ...]
    by_number: dict[int, Field]


@cache
def _raw() -> dict[str, Any]:
    text = files("steersman_cluster.protobuf").joinpath("fields.json").read_text()
    return json.loads(text)


@cache
def message(name: str) -> Message:
    """The message of a Go type, as `core/v1.Pod`."""
    made = tuple(
        Field(number, json_name, kind, "p" in flags, "o" in flags, "r" in flags, "k" in flags, "l" in flags)
        for number, json_name, kind, flags in _raw()["messages"][name]
    )
    return Message(name, made, {field.number: field for field in made})


@cache
def message_of(api_version: str, kind: str) -> Message | None:
    """The message of a kind, or `None` for kinds that have none (custom resources)."""
    group, _, version = api_version.rpartition("/")
    kinds = _raw()["kinds"]
    # Options and Status belong to meta/v1 and travel under every group's name.
    name = kinds.get(f"{group}/{version}/{kind}") or kinds.get(f"{_META_KINDS}/{kind}")
    return None if name is None else message(name)
