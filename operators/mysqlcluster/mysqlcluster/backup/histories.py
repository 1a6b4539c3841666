"""The transactions that an archive contains, in relation to the binary log of the member that it follows.

A member's binary log can end with transactions that were never acknowledged. If the archive has followed such a member,
the next one continues without them, and the archive abandons them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mysqlcluster.backup.positions import AnyGtid, Gtid, SourceGtid, parse_gtids
from mysqlcluster.gtid import GtidSet

__all__ = ["DomainHistory", "History", "SetHistory"]


class History(Protocol):
    """The transactions of the archive. Its text is the history in the header of a segment."""

    def contains(self, position: str) -> bool:
        """Return whether the archive contains all transactions before a file."""
        ...

    def begin_file(self, previous: GtidSet) -> None:
        """Begin to read a file of MySQL; `previous` are the transactions of the member before it."""
        ...

    def begin_after(self, position: str) -> None:
        """Continue after a gap, or begin: all transactions before a file count as contained."""
        ...

    def holds(self, gtid: AnyGtid) -> bool:
        """Return whether the archive contains a transaction of the member's binary log."""
        ...

    def conflicts(self, gtid: AnyGtid) -> bool:
        """Return whether the member has a new transaction and lacks transactions that the archive contains."""
        ...

    def abandon(self, gtid: AnyGtid) -> None:
        """Remove the transactions that the member lacks at its new transaction."""
        ...

    def include(self, gtid: AnyGtid) -> None:
        """Add a transaction that the member has at the position that is read; the archive may contain it already."""
        ...


class DomainHistory:
    """The last number of each domain and server of MariaDB, as in `@@gtid_binlog_state`."""

    def __init__(self, text: str = "") -> None:
        """Start with these transactions and all before them."""
        self._last: dict[tuple[int, int], int] = {}
        self._include(parse_gtids(text))

    def contains(self, position: str) -> bool:
        return all(map(self.holds, parse_gtids(position)))

    def begin_file(self, previous: GtidSet) -> None:
        """Do nothing: the numbers of a domain alone show what the archive contains."""

    def begin_after(self, position: str) -> None:
        gtids = parse_gtids(position)
        for gtid in gtids:
            if self.conflicts(gtid):
                self.abandon(gtid)
        self._include(gtids)

    def _include(self, gtids: Iterable[Gtid]) -> None:
        for gtid in gtids:
            place = (gtid.domain, gtid.server)
            self._last[place] = max(gtid.number, self._last.get(place, 0))

    def include(self, gtid: AnyGtid) -> None:
        self._include((_of_mariadb(gtid),))

    def holds(self, gtid: AnyGtid) -> bool:
        found = _of_mariadb(gtid)
        return found.number <= self._last.get((found.domain, found.server), 0)

    def conflicts(self, gtid: AnyGtid) -> bool:
        """Return whether the archive has a transaction of another server with this number or a higher one."""
        found = _of_mariadb(gtid)
        return not self.holds(found) and any(
            domain == found.domain and number >= found.number for (domain, _), number in self._last.items()
        )

    def abandon(self, gtid: AnyGtid) -> None:
        """Remove all transactions of the domain from the number of this transaction on."""
        found = _of_mariadb(gtid)
        for place, number in list(self._last.items()):
            if place[0] == found.domain and number >= found.number:
                self._last[place] = found.number - 1

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for (domain, server), number in sorted(self._last.items()))


class SetHistory:
    """The GTID set of an archive of MySQL, and the transactions of the member up to the position that is read.

    All members commit in the order of the primary. So a transaction that the archive contains, and that the member
    lacks when it has a new one, is not part of the history that the cluster continued with.
    """

    def __init__(self, text: str = "") -> None:
        """Start with the transactions of a set."""
        self._archived = GtidSet.parse(text)
        self._member = GtidSet()

    def contains(self, position: str) -> bool:
        return self._archived.contains(GtidSet.parse(position))

    def begin_file(self, previous: GtidSet) -> None:
        self._member = previous

    def begin_after(self, position: str) -> None:
        self._archived = GtidSet.parse(position)

    def holds(self, gtid: AnyGtid) -> bool:
        return self._archived.contains(_set_of(gtid))

    def conflicts(self, gtid: AnyGtid) -> bool:
        return not self._member.contains(self._archived)

    def abandon(self, gtid: AnyGtid) -> None:
        self._archived = self._member

    def include(self, gtid: AnyGtid) -> None:
        one = _set_of(gtid)
        self._archived = self._archived.union(one)
        self._member = self._member.union(one)

    def __str__(self) -> str:
        return str(self._archived)


def _of_mariadb(gtid: AnyGtid) -> Gtid:
    if not isinstance(gtid, Gtid):
        raise ValueError(f"{gtid} is not a transaction of MariaDB")
    return gtid


def _set_of(gtid: AnyGtid) -> GtidSet:
    if not isinstance(gtid, SourceGtid):
        raise ValueError(f"{gtid} is not a transaction of MySQL")
    return GtidSet({gtid.source: [(gtid.number, gtid.number)]})
