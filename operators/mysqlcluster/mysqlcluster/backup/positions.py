"""Positions in a history of MariaDB: the last transaction of each domain.

Within a domain, the numbers of one history rise. Two transactions of a domain with the same number and different
servers belong to different histories. One of the two was never acknowledged, and a failover abandoned it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["Gtid", "History", "Position", "advance", "covers", "format_position", "parse_gtids", "parse_position"]

_GTID = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})")
MAX_POSITION_CHARACTERS = 1 << 16


class Gtid(NamedTuple):
    """One transaction."""

    domain: int
    server: int
    number: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.number}"


Position = Mapping[int, Gtid]
"""The last transaction by domain."""


def parse_position(text: str) -> Position:
    """Return the position of a server's output; if a domain has several servers, the highest number counts.

    Raises:
        ValueError: The text is too long or is not a list of `DOMAIN-SERVER-NUMBER`.
    """
    found: dict[int, Gtid] = {}
    for gtid in parse_gtids(text):
        found = advance(found, gtid)
    return found


def parse_gtids(text: str) -> tuple[Gtid, ...]:
    """Return the transactions of a text; raises `ValueError` as `parse_position` does."""
    if len(text) > MAX_POSITION_CHARACTERS:
        raise ValueError(f"the position has {len(text)} characters; the limit is {MAX_POSITION_CHARACTERS}")
    found: list[Gtid] = []
    for part in filter(None, "".join(text.split()).split(",")):
        match = _GTID.fullmatch(part)
        if match is None:
            raise ValueError(f"{part[:100]!r} is not DOMAIN-SERVER-NUMBER")
        found.append(Gtid(int(match[1]), int(match[2]), int(match[3])))
    return tuple(found)


def format_position(position: Position) -> str:
    """Return the position as text, domains in order."""
    return ",".join(str(position[domain]) for domain in sorted(position))


def advance(position: Position, gtid: Gtid) -> dict[int, Gtid]:
    """Return the position after a transaction; a number that is not higher changes nothing."""
    known = position.get(gtid.domain)
    return dict(position) if known is not None and known.number >= gtid.number else {**position, gtid.domain: gtid}


def covers(position: Position, wanted: Position) -> bool:
    """Return whether every domain of `wanted` has reached its number."""
    return all(
        domain in position and position[domain].number >= gtid.number
        for domain, gtid in wanted.items()
        if gtid.number > 0
    )


class History:
    """The last number of each domain and server in one history, as in `@@gtid_binlog_state`."""

    def __init__(self, gtids: Iterable[Gtid] = ()) -> None:
        """Start with these transactions and all before them."""
        self._last: dict[tuple[int, int], int] = {}
        self.include(gtids)

    def include(self, gtids: Iterable[Gtid]) -> None:
        """Add transactions and all before them."""
        for gtid in gtids:
            place = (gtid.domain, gtid.server)
            self._last[place] = max(gtid.number, self._last.get(place, 0))

    def holds(self, gtid: Gtid) -> bool:
        """Return whether a transaction is part of this history."""
        return gtid.number <= self._last.get((gtid.domain, gtid.server), 0)

    def conflicts(self, gtid: Gtid) -> bool:
        """Return whether the history has a transaction of another server with this number or a higher one."""
        return not self.holds(gtid) and any(
            domain == gtid.domain and number >= gtid.number for (domain, _), number in self._last.items()
        )

    def abandon(self, gtid: Gtid) -> None:
        """Remove all transactions of the domain from the number of this transaction on."""
        for place, number in list(self._last.items()):
            if place[0] == gtid.domain and number >= gtid.number:
                self._last[place] = gtid.number - 1

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for (domain, server), number in sorted(self._last.items()))
