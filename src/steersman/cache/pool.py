"""The stores of one cache, and the dictionary that they share.

What a dictionary costs, in memory and in training, it costs once: a cache of ten kinds has only one, trained on a
sample of all that is there. Only a store of many megabytes has one of its own. The pool decides when it is time;
sampling and packing again are the stores' business.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count as serial
from math import sqrt
from typing import Final, Protocol
from weakref import WeakValueDictionary

from steersman.cache.codecs import WINDOW, Codec, Codecs
from steersman.cache.fresh import Plain

__all__ = ["OWN", "SAMPLE", "Member", "Pool"]

ENOUGH: Final = 1000
"""Objects among which a sample is worth taking."""
SAMPLE: Final = 150
"""Objects from which a dictionary is trained: twice as many gain one percent."""
FEW: Final = 64
"""Caches of fewer objects stay plain."""
WORTH: Final = 1024 * 1024
"""Bytes below which a cache stays plain too: a dictionary and what works with it take a quarter of that."""
STEP: Final = 128 * 1024
"""Bytes between two looks at all stores: there may be a thousand."""
GROWN: Final = 8
"""A dictionary that was trained on few objects is trained anew when there are so many times more."""
OWN: Final = 16 * 1024 * 1024
"""Compressed bytes from which on a store gets a dictionary of its own, unless the shared one does nearly as well."""


class Member(Protocol):
    """What the pool needs of a store."""

    def amount(self) -> tuple[int, int]:
        """The objects and bytes that the shared dictionary is for; none where the store has its own."""
        ...

    @property
    def staging(self) -> bool:
        """Whether a new content is being collected."""
        ...

    def sample(self, most: int) -> Iterable[bytes]:
        """The JSON of up to so many objects, from all over the content."""
        ...

    def repack(self) -> None:
        """Pack what has stayed plain for want of a dictionary."""
        ...


class Pool:
    """What stores have in common: the codecs, and which of them is for new records."""

    def __init__(self) -> None:
        self.codecs = Codecs()
        self.plain = Plain()
        """What is not compressed yet, of all stores."""
        self.common: Codec = self.codecs.untaught
        self._members: WeakValueDictionary[int, Member] = WeakValueDictionary()
        self._serial = serial()
        self._next = WORTH  # bytes that came plain before the next look at all stores
        self._taught_by = 0  # how many objects there were when a dictionary was last trained, or could not be

    def join(self, member: Member) -> None:
        """Count a store in for as long as it exists."""
        self._members[next(self._serial)] = member

    def tidy(self, *, settled: bool = False) -> None:
        """Train the dictionary when there is enough to learn from, or when the objects have outgrown it.

        `settled` says that a store has all of its objects; where that is so of all stores, few are enough.
        """
        common = self.common
        if common.raw < (WINDOW if common.trained else WORTH if settled else self._next):
            return
        self._next = common.raw + STEP
        members = tuple(self._members.values())
        amounts = [member.amount() for member in members]
        count = sum(objects for objects, _ in amounts)
        if common.trained:
            due = common.outdated() or (self._taught_by < ENOUGH and count >= GROWN * self._taught_by)
        else:
            enough = count >= ENOUGH or (settled and count >= FEW and not any(m.staging for m in members))
            due = enough and count >= 2 * self._taught_by and sum(size for _, size in amounts) >= WORTH
        if due:
            self._train(members, [objects for objects, _ in amounts], count)

    def _train(self, members: tuple[Member, ...], counts: list[int], count: int) -> None:
        samples: list[bytes] = []
        for member, most in zip(members, shares(counts, SAMPLE), strict=True):
            samples += member.sample(most)
        codec = self.codecs.learn(samples, than=self.common)
        if codec is not None:
            first = not self.common.trained
            self.common = codec
            if first:
                for member in members:
                    member.repack()
        self._taught_by = count


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
