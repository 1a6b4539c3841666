"""In-memory stand-ins with the shape of the cache's values: entries, changes, an informer that is driven by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from steersman.models import Key, ObjectMeta, encode


@dataclass(frozen=True)
class FakeEntry:
    key: Key
    uid: str = "u1"
    resource_version: str = "1"
    generation: int = 1
    deleting: bool = False
    meta: ObjectMeta = field(default_factory=ObjectMeta)
    value: Any = None
    whole: bool = True

    @property
    def owners(self) -> tuple[Any, ...]:
        return self.meta.owner_references

    def as_desired(self, other: FakeEntry) -> bool:
        return (self.generation, self.deleting) == (other.generation, other.deleting)

    def metadata(self) -> ObjectMeta:
        return self.meta

    def object(self, view: Any) -> Any:
        return self.value

    def raw(self) -> bytes:
        return encode(self.value)


@dataclass(frozen=True)
class FakeChange:
    type: str
    key: Key
    old: FakeEntry | None
    new: FakeEntry | None
    initial: bool = False


def added(entry: FakeEntry, *, initial: bool = False) -> FakeChange:
    return FakeChange("add", entry.key, None, entry, initial)


def updated(old: FakeEntry, new: FakeEntry) -> FakeChange:
    return FakeChange("update", new.key, old, new)


def deleted(entry: FakeEntry) -> FakeChange:
    return FakeChange("delete", entry.key, entry, None)


class FakeInformer:
    def __init__(self) -> None:
        self.handlers: list[Callable[[Any], None]] = []

    def add_handler(self, handler: Callable[[Any], None]) -> None:
        self.handlers.append(handler)

    def remove_handler(self, handler: Callable[[Any], None]) -> None:
        self.handlers.remove(handler)

    def emit(self, change: FakeChange) -> None:
        for handler in self.handlers:
            handler(change)
