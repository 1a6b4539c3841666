"""The number of concurrent requests is limited, waiters are served in order, and no slot is lost."""

import asyncio
from contextlib import suppress

import pytest

from steersman.client.slots import Slots
from steersman.testing import virtual_time


def test_where_there_is_room_nothing_is_awaited():
    slots = Slots(2)
    assert slots.take()
    assert slots.take()
    assert not slots.take()
    slots.give()
    assert slots.take()


@virtual_time
async def test_who_waits_is_served_in_order_and_before_who_comes_later():
    slots, served = Slots(1), []
    assert slots.take()

    async def enter(name):
        if not slots.take():
            await slots.wait()
        served.append(name)
        slots.give()

    tasks = [asyncio.create_task(enter(name)) for name in "abc"]
    await asyncio.sleep(0)
    slots.give()
    assert not slots.take()
    await asyncio.gather(*tasks)
    assert served == ["a", "b", "c"]
    assert slots.take()


@pytest.mark.parametrize("given_first", [False, True])
@virtual_time
async def test_a_cancelled_waiter_loses_no_slot(given_first):
    slots = Slots(1)
    assert slots.take()
    waiter = asyncio.create_task(slots.wait())
    await asyncio.sleep(0)
    if given_first:
        slots.give()
    waiter.cancel()
    with suppress(asyncio.CancelledError):
        await waiter
    if not given_first:
        slots.give()
    assert slots.take()
