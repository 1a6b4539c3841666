"""The benchmark of the embedded cluster measures what it says, on the embedded cluster alone and in small."""

import pytest

from benchmarks.embedded import ROWS
from benchmarks.report import UNITS
from benchmarks.rows import OURS, Row


def test_every_bar_has_a_unit() -> None:
    assert {bar.metric for row in ROWS for bar in row.bars} <= UNITS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["start", "write-apply", "read", "fan-out"])
def test_every_number_has_a_unit_and_is_one(name: str) -> None:
    row: Row = next(row for row in ROWS if row.name == name)
    numbers = row.measure(None, OURS, row.quick, 1)  # type: ignore[arg-type]
    assert numbers.keys() <= UNITS.keys()
    assert all(number >= 0 for number in numbers.values())
