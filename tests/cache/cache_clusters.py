"""Shared parts of the tests of caches over real clusters."""

import asyncio
import time


async def until(condition, seconds=120.0):
    """Wait for a condition in bounded real time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        await asyncio.sleep(0.02)
