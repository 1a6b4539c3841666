"""A history of acknowledged and consumed messages, and the check for lost and disordered messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Report", "check"]


@dataclass(frozen=True)
class Report:
    """The result of a check.

    A producer sends the numbers of a lane in order, and repeats each until it is acknowledged.
    """

    lost: tuple[tuple[str, int], ...]
    """Lanes and numbers that were acknowledged and not consumed."""
    disordered: tuple[tuple[str, int], ...]
    """Lanes and numbers whose first delivery came after a larger number of the lane."""
    duplicates: int
    """The number of repeated deliveries."""

    @property
    def sound(self) -> bool:
        """Whether no message was lost and each lane is in order."""
        return not (self.lost or self.disordered)


def check(acknowledged: Mapping[str, Iterable[int]], consumed: Mapping[str, Sequence[int]]) -> Report:
    """Compare the messages that were acknowledged to producers with those that consumers received.

    Args:
        acknowledged: the numbers of each lane that a broker acknowledged.
        consumed: the numbers of each lane, in the order of consumption.
    """
    lost: list[tuple[str, int]] = []
    disordered: list[tuple[str, int]] = []
    duplicates = 0
    for lane, numbers in acknowledged.items():
        got = consumed.get(lane, ())
        lost += [(lane, number) for number in sorted(set(numbers) - set(got))]
    for lane, numbers in consumed.items():
        seen: set[int] = set()
        for number in numbers:
            if number in seen:
                duplicates += 1
            elif seen and number < max(seen):
                disordered.append((lane, number))
            seen.add(number)
    return Report(tuple(lost), tuple(disordered), duplicates)
