"""Transactions of both flavors, and positions in a history of MariaDB: the last transaction of each domain.

Within a domain of MariaDB, the numbers of one history rise. Two transactions of a domain with the same number and different
servers belong to different histories. One of the two was never acknowledged, and a failover abandoned it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "AnyGtid",
    "Gtid",
    "Position",
    "SourceGtid",
    "advance",
    "covers",
    "format_position",
    "parse_gtids",
    "parse_position",
]

_GTID = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})")
MAX_POSITION_CHARACTERS = 1 << 16


class Gtid(NamedTuple):
    """One transaction of MariaDB."""

    domain: int
    server: int
    number: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.number}"


class SourceGtid(NamedTuple):
    """One transaction of MySQL."""

    source: str
    """The UUID of the server that was the primary."""
    number: int

    def __str__(self) -> str:
        return f"{self.source}:{self.number}"


AnyGtid = Gtid | SourceGtid
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
