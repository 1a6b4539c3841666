"""Indexes over a store: from a value to the objects that have it, without the garbage collector's attention.

A member is the string `namespace/name`; one member is kept bare and several as the keys of a dict, so that an index
is made of strings and dicts of strings only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from steersman.models import Key, View

__all__ = ["Declared", "Index", "IndexFunction", "key_of_member", "member_of"]

IndexFunction: TypeAlias = Callable[[Any], str | Iterable[str] | None]
"""What value or values an object is found under; must be pure. What it raises is logged and counted, and the object
is not found through this index."""


def member_of(namespace: str, name: str) -> str:
    """How an index writes a key."""
    return f"{namespace}/{name}"


def key_of_member(member: str) -> Key:
    """The key that `member_of` wrote; a namespace never contains a slash."""
    namespace, _, name = member.partition("/")
    return Key(namespace, name)


class Index:
    """From value to members, in the order in which they came."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[str, str | dict[str, None]] = {}

    def add(self, value: str, member: str) -> None:
        """Let `member` be found under `value`."""
        have = self._members.get(value)
        if have is None:
            self._members[value] = member
        elif isinstance(have, str):
            if have != member:
                self._members[value] = {have: None, member: None}
        else:
            have[member] = None

    def discard(self, value: str, member: str) -> None:
        """Let `member` no longer be found under `value`."""
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
        """The members under `value`; empty when there are none."""
        have = self._members.get(value)
        if have is None:
            return ()
        return (have,) if isinstance(have, str) else tuple(have)

    def values(self) -> tuple[str, ...]:
        """All values under which anything is found."""
        return tuple(self._members)

    def __len__(self) -> int:
        return len(self._members)


class Declared:
    """An index that a user declared by a function, with what it last said of each member."""

    __slots__ = ("function", "index", "said", "view")

    def __init__(self, function: IndexFunction, view: View[Any]) -> None:
        self.function = function
        self.view = view
        self.index = Index()
        self.said: dict[str, str | tuple[str, ...]] = {}

    def put(self, member: str, values: str | tuple[str, ...]) -> None:
        """Replace what is known of `member`."""
        self.discard(member)
        if values:
            self.said[member] = values
            for value in (values,) if isinstance(values, str) else values:
                self.index.add(value, member)

    def discard(self, member: str) -> None:
        """Forget `member`."""
        values = self.said.pop(member, ())
        for value in (values,) if isinstance(values, str) else values:
            self.index.discard(value, member)
