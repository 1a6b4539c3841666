"""`eventually`, and its message when a condition is not met."""

from __future__ import annotations

import re

import pytest

from steersman.testing.loop import virtual_time
from steersman.testing.waiting import eventually


def test_it_returns_what_came() -> None:
    values = iter([None, [], "there"])
    assert eventually(lambda: next(values)) == "there"


def test_an_exception_means_not_yet() -> None:
    tries: list[int] = []

    def third_time() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise LookupError("not there")
        return len(tries)

    assert eventually(third_time) == 3


def test_a_failure_tells_the_last_value_and_what_changed() -> None:
    seen: list[int] = []

    def pods() -> dict[str, int]:
        seen.append(1)
        return {"ready": min(len(seen), 2), "wanted": 3}

    with pytest.raises(AssertionError) as caught:
        eventually(pods, within=0.05, what="three Pods are ready", until=lambda found: found["ready"] == 3)
    said = str(caught.value)
    assert re.match(r"after 0.05 s still not: three Pods are ready \(tried \d+ times\)\nlast: {", said)
    assert '-  "ready": 1,' in said
    assert '+  "ready": 2,' in said


def test_a_failure_tells_the_last_exception() -> None:
    def absent() -> None:
        raise LookupError("no such Pod")

    with pytest.raises(AssertionError, match=r"still not: absent(.|\n)*LookupError: no such Pod") as caught:
        eventually(absent, within=0.01)
    assert isinstance(caught.value.__cause__, LookupError)


@virtual_time
async def test_it_waits_for_hours_of_virtual_time() -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    end = loop.time() + 7200

    async def late() -> bool:
        return loop.time() >= end

    assert await eventually(late, within=10_000)

    async def never() -> bool:
        return False

    with pytest.raises(AssertionError, match="after 60 s still not: never comes"):
        await eventually(never, within=60, what="never comes")
