"""Indexes over a store: from a value to the objects that have it.

A member is the string `namespace/name`. A single member is stored as a string and several as the keys of a dict. The
garbage collector does not track either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from steersman.models import Key, View

__all__ = ["FunctionIndex", "Index", "IndexFunction", "key_of_member", "member_of"]

IndexFunction: TypeAlias = Callable[[Any], str | Iterable[str] | None]
"""Returns the index values of an object; it must be pure. If it raises, the error is logged and counted, and the object
is not in this index."""


def member_of(namespace: str, name: str) -> str:
    """Return the member for a key."""
    return f"{namespace}/{name}"


def key_of_member(member: str) -> Key:
    """Return the key of a member; a namespace contains no slash."""
    namespace, _, name = member.partition("/")
    return Key(namespace, name)


class Index:
    """A map from values to members, in the order of insertion."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[str, str | dict[str, None]] = {}

    def add(self, value: str, member: str) -> None:
        """Add `member` to `value`."""
        have = self._members.get(value)
        if have is None:
            self._members[value] = member
        elif isinstance(have, str):
            if have != member:
                self._members[value] = {have: None, member: None}
        else:
            have[member] = None

    def discard(self, value: str, member: str) -> None:
        """Remove `member` from `value`."""
        have = self._members.get(value)
        if have is None:
            return
        if isinstance(have, str):
            if have == member:
                del self._members[value]
            return
        have.pop(member, None)
        if not have:
            del self._members[value]

    def find(self, value: str) -> tuple[str, ...]:
        """Return the members of `value`."""
        have = self._members.get(value)
        if have is None:
            return ()
        return (have,) if isinstance(have, str) else tuple(have)

    def values(self) -> tuple[str, ...]:
        """Return all values that have members."""
        return tuple(self._members)

    def __len__(self) -> int:
        return len(self._members)


class FunctionIndex:
    """An index by a user's function, with the current values of each member."""

    __slots__ = ("function", "index", "values_by_member", "view")

    def __init__(self, function: IndexFunction, view: View[Any]) -> None:
        self.function = function
        self.view = view
        self.index = Index()
        self.values_by_member: dict[str, str | tuple[str, ...]] = {}

    def put(self, member: str, values: str | tuple[str, ...]) -> None:
        """Replace the values of `member`."""
        self.discard(member)
        if values:
            self.values_by_member[member] = values
            for value in (values,) if isinstance(values, str) else values:
                self.index.add(value, member)

    def discard(self, member: str) -> None:
        """Remove `member`."""
        values = self.values_by_member.pop(member, ())
        for value in (values,) if isinstance(values, str) else values:
            self.index.discard(value, member)
