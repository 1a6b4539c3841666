"""Decides when the stores of a cache train a compression dictionary, and which stores share it.

A dictionary costs memory and training time once, so the stores of a cache share one, trained on samples of all kinds.
Kinds that appear later stay uncompressed until they justify another training, because the dictionary compresses
unknown kinds a third worse. Only a store of many megabytes has a dictionary of its own. Stores provide the samples and
compress their records again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import count as serial
from math import sqrt
from typing import Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

from steersman.cache.codecs import REVIEW_AFTER_BYTES, Codec, Codecs
from steersman.cache.uncompressed import UncompressedBytes

__all__ = ["MAX_SAMPLES", "OWN_DICTIONARY_MIN_BYTES", "DictionaryPool", "Member", "Membership"]

MIN_OBJECTS_TO_TRAIN: Final = 256
"""The fewest objects on which the first dictionary is trained; earlier records are compressed later."""
MAX_SAMPLES: Final = 150
"""The most samples of one training: twice as many gain one percent."""
MIN_SAMPLES: Final = 50
"""The fewest samples of one training, for large objects whose samples exceed `SAMPLE_BYTES`."""
SAMPLE_BYTES: Final = 256 * 1024
"""Bytes of all samples of one training: twice as many take nearly twice as long."""
MIN_OBJECTS_OF_KIND: Final = 64
"""Caches with fewer objects stay uncompressed, and so do kinds with fewer objects while their list is read."""
MIN_PLAIN_BYTES: Final = 1024 * 1024
"""Caches with fewer bytes stay uncompressed: a dictionary and its contexts take a quarter of that."""
UNTRAINED_KIND_WEIGHT: Final = 9
"""The factor on the number of objects of a kind that no dictionary knows yet; its share of samples triples."""
CHECK_INTERVAL_BYTES: Final = 128 * 1024
"""Bytes between two checks of all stores, of which there may be a thousand."""
RETRAIN_GROWTH: Final = 8
"""A dictionary trained on few objects is trained again after the objects have grown by this factor."""
OWN_DICTIONARY_MIN_BYTES: Final = 16 * 1024 * 1024
"""Compressed bytes of a store that justify its own dictionary, unless the shared one is nearly as good."""


class Member(Protocol):
    """The part of a store that the pool uses."""

    codec: Codec
    """The codec of new records."""

    @property
    def kind(self) -> Hashable:
        """A key that is equal for stores of similar objects."""
        ...

    def amount(self) -> tuple[int, int]:
        """The objects and bytes for the shared dictionary; zero if the store has its own."""
        ...

    @property
    def staging(self) -> bool:
        """Whether the store stages a list."""
        ...

    def sample(self, most: int) -> Sequence[bytes]:
        """The JSON of up to `most` objects, evenly spread over the content."""
        ...

    def recompress(self) -> None:
        """Compress the records that were stored before there was a dictionary."""
        ...


class Membership:
    """The membership of a store in a pool, for a weak reference: compiled stores cannot have any."""

    __slots__ = ("__weakref__", "member")

    def __init__(self, member: Member) -> None:
        self.member = member


_Amounts: TypeAlias = Sequence[tuple[int, int]]


class DictionaryPool:
    """The codecs of all stores of one cache, and the choice of the codec for new records."""

    def __init__(self) -> None:
        self.codecs = Codecs()
        self.uncompressed = UncompressedBytes()
        """The uncompressed bytes of all stores."""
        self.common: Codec = self.codecs.plain
        """The codec with the newest shared dictionary; before the first training, the plain one."""
        self._memberships: WeakValueDictionary[int, Membership] = WeakValueDictionary()
        self._serial = serial()
        self._trained_kinds: set[Hashable] = set()  # kinds that the dictionary knows
        self._next_check = MIN_PLAIN_BYTES  # uncompressed bytes at which all stores are checked next
        self._objects_at_training = 0  # the number of objects at the last training, or attempt

    def join(self, member: Member) -> Membership:
        """Add a store for as long as it holds the returned value."""
        membership = self._memberships[next(self._serial)] = Membership(member)
        if member.kind in self._trained_kinds:
            member.codec = self.common
        return membership

    def train(self, *, list_complete: bool = False) -> None:
        """Train the dictionary if there are enough objects, or if they have changed too much since the last training.

        `list_complete` says that a store has all of its objects. When no store stages a list, fewer objects are enough.
        """
        common, plain = self.common, self.codecs.plain
        if common.trained:
            last = list_complete and plain.raw >= CHECK_INTERVAL_BYTES and not self._staging()
            if plain.raw < self._next_check and common.raw < REVIEW_AFTER_BYTES and not last:
                return
        elif plain.raw < (MIN_PLAIN_BYTES if list_complete else self._next_check):
            return
        self._next_check = plain.raw + CHECK_INTERVAL_BYTES
        members = self._members()
        amounts = [member.amount() for member in members]
        known = _known(members, amounts)
        if self._is_due(members, amounts, known):
            self._train(members, amounts, known)
        elif common.trained and not self._staging():
            self._adopt(members, known)  # too few objects for a training: the shared dictionary is better than none

    def _is_due(self, members: Sequence[Member], amounts: _Amounts, known: set[Hashable]) -> bool:
        count = sum(objects for objects, _ in amounts)
        size = sum(size for _, size in amounts)
        if not self.common.trained:
            enough = count >= MIN_OBJECTS_TO_TRAIN or (count >= MIN_OBJECTS_OF_KIND and not self._staging())
            return enough and count >= 2 * self._objects_at_training and size >= MIN_PLAIN_BYTES
        outgrown = (
            self._objects_at_training < MIN_OBJECTS_TO_TRAIN and count >= RETRAIN_GROWTH * self._objects_at_training
        )
        waiting = sum(size for m, (_, size) in zip(members, amounts, strict=True) if self._waits(m, known))
        return self.common.outdated() or outgrown or waiting >= max(MIN_PLAIN_BYTES, (size - waiting) // 4)

    def _waits(self, member: Member, known: set[Hashable]) -> bool:
        """Return whether a store has no dictionary, and enough objects to train one."""
        return member.codec is self.codecs.plain and member.kind in known

    def _staging(self) -> bool:
        return any(member.staging for member in self._members())

    def _members(self) -> tuple[Member, ...]:
        return tuple([membership.member for membership in self._memberships.values()])

    def _train(self, members: Sequence[Member], amounts: _Amounts, known: set[Hashable]) -> None:
        """Train on samples of all stores; the samples of waiting stores decide whether the result is used."""
        waits = [self.common.trained and self._waits(member, known) for member in members]
        counts = [objects for objects, _ in amounts]
        weights = [n * UNTRAINED_KIND_WEIGHT if waiting else n for n, waiting in zip(counts, waits, strict=True)]
        mean = sum(size for _, size in amounts) // max(1, sum(counts))
        most = shares(weights, min(MAX_SAMPLES, max(MIN_SAMPLES, SAMPLE_BYTES // max(1, mean))))
        samples: list[bytes] = []
        holdout: list[bytes] = []
        for member, share, waiting in zip(members, most, waits, strict=True):
            some = member.sample(share)
            samples += some
            if waiting:
                holdout += some
        self._objects_at_training = sum(counts)
        codec = self.codecs.train(samples, than=self.common, holdout=holdout)
        if codec is not None:
            before, self.common = self.common, codec
            for member in members:
                if member.codec is before and before.trained:
                    member.codec = codec
        if self.common.trained:
            self._adopt(members, known)

    def _adopt(self, members: Sequence[Member], known: set[Hashable]) -> None:
        """Assign the shared dictionary to the stores of its kinds."""
        plain = self.codecs.plain
        self._trained_kinds |= known
        for member in members:
            if member.codec is plain and member.kind in self._trained_kinds:
                member.codec = self.common
                member.recompress()
        plain.raw, self._next_check = 0, CHECK_INTERVAL_BYTES


def _known(members: Sequence[Member], amounts: _Amounts) -> set[Hashable]:
    """Return the kinds with enough objects to represent them, not only the first page of a list."""
    counts: Counter[Hashable] = Counter()
    for member, (objects, _) in zip(members, amounts, strict=True):
        counts[member.kind] += objects
    coming = {member.kind for member in members if member.staging}
    return {
        kind for kind, objects in counts.items() if objects >= MIN_OBJECTS_OF_KIND or (objects and kind not in coming)
    }


def shares(counts: list[int], most: int) -> list[int]:
    """Return how many of `most` samples to take from collections of these sizes, by their square roots.

    In proportion to the sizes themselves, one kind with many objects would displace all others.
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
