"""The stores of one cache, and the dictionary that they share.

What a dictionary costs, in memory and in training, it costs once: a cache of ten kinds has only one, trained on a
sample of all that is there. Kinds that come after that stay plain until they are worth another, for to a dictionary
that does not know them they are half as big again. Only a store of many megabytes has one of its own. The pool decides
when it is time; sampling and packing again are the stores' business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import count as serial
from math import sqrt
from typing import Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

from steersman.cache.codecs import WINDOW, Codec, Codecs
from steersman.cache.fresh import Plain

__all__ = ["OWN", "SAMPLE", "Member", "Pool", "Seat"]

ENOUGH: Final = 256
"""Objects among which a sample is worth taking: what comes before it stays plain, and is packed later."""
SAMPLE: Final = 150
"""Objects from which a dictionary is trained: twice as many gain one percent."""
FEWER: Final = 50
"""The same where objects are long, down to which they are as many as make `STUDIED` bytes."""
STUDIED: Final = 256 * 1024
"""Bytes from which a dictionary is trained: twice as many take nearly twice as long."""
FEW: Final = 64
"""Caches of fewer objects stay plain, and kinds of which fewer have come do so for as long as more come."""
WORTH: Final = 1024 * 1024
"""Bytes below which a cache stays plain too: a dictionary and what works with it take a quarter of that."""
EAGER: Final = 9
"""How many times as many a kind counts for in that sample that no dictionary knows yet: its share is three times as
large."""
STEP: Final = 128 * 1024
"""Bytes between two looks at all stores: there may be a thousand."""
GROWN: Final = 8
"""A dictionary that was trained on few objects is trained anew when there are so many times more."""
OWN: Final = 16 * 1024 * 1024
"""Compressed bytes from which on a store gets a dictionary of its own, unless the shared one does nearly as well."""


class Member(Protocol):
    """What the pool needs of a store."""

    codec: Codec
    """What new records are written with."""

    @property
    def kind(self) -> Hashable:
        """What stores of objects that are alike have in common."""
        ...

    def amount(self) -> tuple[int, int]:
        """The objects and bytes that the shared dictionary is for; none where the store has its own."""
        ...

    @property
    def staging(self) -> bool:
        """Whether a new content is being collected."""
        ...

    def sample(self, most: int) -> Sequence[bytes]:
        """The JSON of up to so many objects, from all over the content."""
        ...

    def repack(self) -> None:
        """Pack what has stayed plain for want of a dictionary."""
        ...


class Seat:
    """A store's place in a pool: what the pool refers to weakly, as compiled stores cannot be."""

    __slots__ = ("__weakref__", "member")

    def __init__(self, member: Member) -> None:
        self.member = member


_Amounts: TypeAlias = Sequence[tuple[int, int]]


class Pool:
    """What stores have in common: the codecs, and which of them is for new records."""

    def __init__(self) -> None:
        self.codecs = Codecs()
        self.plain = Plain()
        """What is not compressed yet, of all stores."""
        self.common: Codec = self.codecs.untaught
        """The newest dictionary; before the first, none."""
        self._seats: WeakValueDictionary[int, Seat] = WeakValueDictionary()
        self._serial = serial()
        self._taught: set[Hashable] = set()  # kinds that the dictionary is for
        self._next = WORTH  # bytes that came plain before the next look at all stores
        self._taught_by = 0  # how many objects there were when a dictionary was last trained, or could not be

    def join(self, member: Member) -> Seat:
        """Count a store in for as long as it keeps what this returns."""
        seat = self._seats[next(self._serial)] = Seat(member)
        if member.kind in self._taught:
            member.codec = self.common
        return seat

    def tidy(self, *, settled: bool = False) -> None:
        """Train the dictionary when there is enough to learn from, or when the objects have outgrown it.

        `settled` says that a store has all of its objects; where that is so of all stores, few are enough.
        """
        common, plain = self.common, self.codecs.untaught
        if common.trained:
            last = settled and plain.raw >= STEP and not self._staging()
            if plain.raw < self._next and common.raw < WINDOW and not last:
                return
        elif plain.raw < (WORTH if settled else self._next):
            return
        self._next = plain.raw + STEP
        members = self._members()
        amounts = [member.amount() for member in members]
        known = _known(members, amounts)
        if self._is_due(members, amounts, known):
            self._train(members, amounts, known)
        elif common.trained and not self._staging():
            self._adopt(members, known)  # too little for a dictionary: that of the others is better than none

    def _is_due(self, members: Sequence[Member], amounts: _Amounts, known: set[Hashable]) -> bool:
        count = sum(objects for objects, _ in amounts)
        size = sum(size for _, size in amounts)
        if not self.common.trained:
            enough = count >= ENOUGH or (count >= FEW and not self._staging())
            return enough and count >= 2 * self._taught_by and size >= WORTH
        outgrown = self._taught_by < ENOUGH and count >= GROWN * self._taught_by
        waiting = sum(size for m, (_, size) in zip(members, amounts, strict=True) if self._waits(m, known))
        return self.common.outdated() or outgrown or waiting >= max(WORTH, (size - waiting) // 4)

    def _waits(self, member: Member, known: set[Hashable]) -> bool:
        """Whether it has no dictionary, and objects enough to teach one."""
        return member.codec is self.codecs.untaught and member.kind in known

    def _staging(self) -> bool:
        return any(member.staging for member in self._members())

    def _members(self) -> tuple[Member, ...]:
        return tuple([seat.member for seat in self._seats.values()])

    def _train(self, members: Sequence[Member], amounts: _Amounts, known: set[Hashable]) -> None:
        """Learn from all, and most from those that wait for it; these judge whether it was worth it."""
        waits = [self.common.trained and self._waits(member, known) for member in members]
        counts = [objects for objects, _ in amounts]
        weights = [n * EAGER if waiting else n for n, waiting in zip(counts, waits, strict=True)]
        mean = sum(size for _, size in amounts) // max(1, sum(counts))
        most = shares(weights, min(SAMPLE, max(FEWER, STUDIED // max(1, mean))))
        samples: list[bytes] = []
        judges: list[bytes] = []
        for member, share, waiting in zip(members, most, waits, strict=True):
            some = member.sample(share)
            samples += some
            if waiting:
                judges += some
        self._taught_by = sum(counts)
        codec = self.codecs.learn(samples, than=self.common, judges=judges)
        if codec is not None:
            before, self.common = self.common, codec
            for member in members:
                if member.codec is before and before.trained:
                    member.codec = codec
        if self.common.trained:
            self._adopt(members, known)

    def _adopt(self, members: Sequence[Member], known: set[Hashable]) -> None:
        """Let all use the dictionary whose kinds it knows."""
        plain = self.codecs.untaught
        self._taught |= known
        for member in members:
            if member.codec is plain and member.kind in self._taught:
                member.codec = self.common
                member.repack()
        plain.raw, self._next = 0, STEP


def _known(members: Sequence[Member], amounts: _Amounts) -> set[Hashable]:
    """The kinds of which there are objects enough to know them: not only the first of many that are on their way."""
    counts: Counter[Hashable] = Counter()
    for member, (objects, _) in zip(members, amounts, strict=True):
        counts[member.kind] += objects
    coming = {member.kind for member in members if member.staging}
    return {kind for kind, objects in counts.items() if objects >= FEW or (objects and kind not in coming)}


def shares(counts: list[int], most: int) -> list[int]:
    """How many of `most` samples to take from collections of so many objects.

    By the square roots: by the counts themselves, the many objects of one kind would leave the others no room.
    """
    weights = [sqrt(count) for count in counts]
    step = sum(weights) / most
    taken: list[int] = []
    before = reached = 0.0
    for weight in weights:
        reached += weight
        taken.append(round(reached / step) - round(before / step) if step else 0)
        before = reached
    return taken
