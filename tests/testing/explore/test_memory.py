"""A digest of variables changes with each variable that a function can read, and with no other one."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from steersman.testing.explore.memory import memory_digest

COUNTS: dict[str, int] = {}
UNUSED: list[int] = []


@dataclass
class Point:
    x: int = 0
    tags: set[str] = field(default_factory=set[str])


class Server:
    known: dict[str, int] = {}  # noqa: RUF012 - mutable on purpose

    def __init__(self) -> None:
        self.disks: list[str] = []
        self.parent: Server | None = self

    def add(self, name: str) -> None:
        self.disks.append(name)


def reads_global() -> int:
    return len(COUNTS)


def closure(value: object) -> Callable[[], object]:
    def read() -> object:
        return value

    return read


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    COUNTS.clear()
    UNUSED.clear()
    Server.known.clear()


def test_equal_variables_have_one_digest() -> None:
    assert memory_digest([closure({"a": [1, 2], "b": {3}})]) == memory_digest([closure({"b": {3}, "a": [1, 2]})])


def test_a_changed_closure_changes_the_digest() -> None:
    values: list[int] = []
    before = memory_digest([closure(values)])
    values.append(1)
    assert before is not None
    assert memory_digest([closure(values)]) != before


def test_only_globals_that_the_function_names_matter() -> None:
    before = memory_digest([reads_global])
    UNUSED.append(1)
    assert memory_digest([reads_global]) == before
    COUNTS["a"] = 1
    assert memory_digest([reads_global]) != before


def test_attributes_of_objects_and_of_their_classes_matter() -> None:
    server = Server()
    found = [memory_digest([server.add])]
    server.add("a")
    found.append(memory_digest([server.add]))
    Server.known["a"] = 1
    found.append(memory_digest([server.add]))
    assert None not in found
    assert len(set(found)) == 3


def test_fields_of_dataclasses_and_arguments_of_partials_matter() -> None:
    found = {memory_digest([partial(closure, point)]) for point in (Point(), Point(1), Point(1, {"a"}))}
    assert None not in found
    assert len(found) == 3


def test_a_value_that_cannot_be_read_has_no_digest() -> None:
    assert memory_digest([closure(io.StringIO("a"))]) is None
