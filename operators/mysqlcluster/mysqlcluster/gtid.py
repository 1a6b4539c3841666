"""Sets of global transaction identifiers of MySQL and MariaDB, as frozen values.

MySQL identifies a transaction by the UUID of its server, an optional tag and a number. `@@gtid_executed` lists all of
them as intervals. MariaDB identifies a transaction by a domain, a server and a number that rises within the domain.
`@@gtid_binlog_state` holds the last number of each domain and server, and implies all numbers of that pair before it.
Both are intervals of numbers for each origin, where the origin is `UUID`, `UUID:TAG` or `DOMAIN-SERVER`.

A MariaDB position such as `@@gtid_slave_pos` names one server of each domain only. It is a lower bound of the set; take
the union with `@@gtid_binlog_state` before two members are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Self

__all__ = ["Comparison", "GtidError", "GtidSet"]

MAX_TEXT_CHARACTERS = 1 << 20
MAX_INTERVALS = 100_000
MAX_NUMBER = (1 << 64) - 1

Interval = tuple[int, int]
"""First and last number, both included."""

_MARIADB = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?")


class GtidError(ValueError):
    """A text is not a GTID set."""


class Comparison(Enum):
    """The relation of one set to another."""

    EQUAL = "Equal"
    SUPERSET = "Superset"
    SUBSET = "Subset"
    INCOMPARABLE = "Incomparable"


class GtidSet:
    """An immutable set of transactions; `GtidSet()` is the empty one."""

    __slots__ = ("_hash", "_intervals")

    def __init__(self, intervals: Mapping[str, Iterable[Interval]] | None = None) -> None:
        """Make a set of intervals for each origin.

        Args:
            intervals: Pairs of the first and last number, in any order; they may overlap.
        """
        made = {origin: _merged(pairs) for origin, pairs in (intervals or {}).items()}
        self._intervals = {origin: made[origin] for origin in sorted(made) if made[origin]}
        self._hash = hash(tuple(self._intervals.items()))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the set of a server's output, in the notation of MySQL or MariaDB; white space is ignored.

        Raises:
            GtidError: The text is too long, has too many intervals, mixes the notations or is not a GTID set.
        """
        if len(text) > MAX_TEXT_CHARACTERS:
            raise GtidError(f"the GTID set has {len(text)} characters; the limit is {MAX_TEXT_CHARACTERS}")
        parts = [part for part in "".join(text.split()).lower().split(",") if part]
        is_mysql = {":" in part for part in parts}
        if len(is_mysql) > 1:
            raise GtidError(f"the GTID set mixes the notations of MySQL and MariaDB: {text[:100]!r}")
        found: dict[str, list[Interval]] = {}
        count = 0
        for part in parts:
            for origin, interval in _parse_mysql(part) if ":" in part else _parse_mariadb(part):
                found.setdefault(origin, []).append(interval)
                count += 1
                if count > MAX_INTERVALS:
                    raise GtidError(f"the GTID set has more than {MAX_INTERVALS} intervals")
        return cls(found)

    def union(self, other: GtidSet) -> GtidSet:
        """Return the transactions that are in at least one of the sets."""
        both = {
            origin: [*self._intervals.get(origin, ()), *other._intervals.get(origin, ())]
            for origin in {*self._intervals, *other._intervals}
        }
        return GtidSet(both)

    def subtract(self, other: GtidSet) -> GtidSet:
        """Return the transactions of this set that are not in the other."""
        rest = {origin: _without(pairs, other._intervals.get(origin, ())) for origin, pairs in self._intervals.items()}
        return GtidSet(rest)

    def contains(self, other: GtidSet) -> bool:
        """Return whether every transaction of the other set is in this one."""
        return not other.subtract(self)

    def compare(self, other: GtidSet) -> Comparison:
        """Return the relation of this set to the other: `SUPERSET` if this set contains the other and more."""
        match self.contains(other), other.contains(self):
            case True, True:
                return Comparison.EQUAL
            case True, False:
                return Comparison.SUPERSET
            case False, True:
                return Comparison.SUBSET
            case _:
                return Comparison.INCOMPARABLE

    @property
    def count(self) -> int:
        """The number of transactions; for MariaDB an upper bound, because the servers of a domain share its numbers."""
        return sum(last - first + 1 for pairs in self._intervals.values() for first, last in pairs)

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins of transactions, sorted."""
        return tuple(self._intervals)

    def last(self, origin: str) -> int:
        """Return the highest number of an origin; 0 if there is none."""
        pairs = self._intervals.get(origin)
        return pairs[-1][1] if pairs else 0

    def position(self) -> str:
        """Return a MariaDB position: of each domain the transaction with the highest number.

        Raises:
            GtidError: This is a set of MySQL.
        """
        highest: dict[str, tuple[int, str]] = {}
        for origin in self._intervals:
            domain, dash, server = origin.partition("-")
            if not dash or "-" in server:
                raise GtidError(f"a set of MySQL has no position: {origin}")
            highest[domain] = max(highest.get(domain, (0, "")), (self.last(origin), server))
        return ",".join(f"{domain}-{server}-{number}" for domain, (number, server) in sorted(highest.items()))

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self._intervals == other._intervals

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return ",".join(_printed(origin, pairs) for origin, pairs in self._intervals.items())

    def __repr__(self) -> str:
        return f"GtidSet.parse({str(self)!r})"


def _parse_mariadb(part: str) -> Iterator[tuple[str, Interval]]:
    match = _MARIADB.fullmatch(part)
    if match is None or not 0 < int(match[3]) <= MAX_NUMBER:
        raise GtidError(f"{part[:100]!r} is not DOMAIN-SERVER-NUMBER")
    yield f"{int(match[1])}-{int(match[2])}", (1, int(match[3]))


def _parse_mysql(part: str) -> Iterator[tuple[str, Interval]]:
    uuid, *words = part.split(":")
    if _UUID.fullmatch(uuid) is None:
        raise GtidError(f"{uuid[:100]!r} is not the UUID of a server")
    origin = uuid
    for word in words:
        if _TAG.fullmatch(word):
            origin = f"{uuid}:{word}"
            continue
        match = _INTERVAL.fullmatch(word)
        if match is None:
            raise GtidError(f"{word[:100]!r} of {uuid} is neither an interval nor a tag")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 < first <= last <= MAX_NUMBER:
            raise GtidError(f"the interval {word} of {uuid} does not rise from 1 to {MAX_NUMBER}")
        yield origin, (first, last)


def _printed(origin: str, pairs: tuple[Interval, ...]) -> str:
    if ":" not in origin and _UUID.fullmatch(origin) is None:
        return f"{origin}-{pairs[-1][1]}"
    return ":".join([origin, *(f"{first}-{last}" if first < last else str(first) for first, last in pairs)])


def _merged(pairs: Iterable[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for first, last in sorted(pairs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _without(pairs: Iterable[Interval], removed: tuple[Interval, ...]) -> list[Interval]:
    """Subtract `removed` from `pairs` in one pass; both are sorted and disjoint."""
    rest: list[Interval] = []
    index = 0
    for pair_first, last in pairs:
        first = pair_first
        while index < len(removed) and removed[index][1] < first:
            index += 1
        position = index
        while position < len(removed) and removed[position][0] <= last:
            if removed[position][0] > first:
                rest.append((first, removed[position][0] - 1))
            first = removed[position][1] + 1
            position += 1
        if first <= last:
            rest.append((first, last))
    return rest
