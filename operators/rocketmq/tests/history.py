"""A history of messages that were acknowledged and of messages that were consumed, and what it proves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Report", "check"]


@dataclass(frozen=True)
class Report:
    """What a history shows. A producer sends the numbers of a lane in order, each until it is acknowledged."""

    lost: tuple[tuple[str, int], ...]
    """Lanes and numbers that were acknowledged and not consumed."""
    disordered: tuple[tuple[str, int], ...]
    """Lanes and numbers that came first after a larger number of the lane."""
    duplicates: int
    """Messages beyond the first of a number."""

    @property
    def sound(self) -> bool:
        """Whether nothing was lost and each lane is in order."""
        return not (self.lost or self.disordered)


def check(acknowledged: Mapping[str, Iterable[int]], consumed: Mapping[str, Sequence[int]]) -> Report:
    """Compare what producers were told with what consumers got.

    Args:
        acknowledged: the numbers of each lane that a broker acknowledged.
        consumed: the numbers of each lane in the order in which they were consumed.
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
