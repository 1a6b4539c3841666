"""Both sides of each comparison do the same work; `comparisons` checks their results."""

from __future__ import annotations

import asyncio

from benchmarks.own_code import comparisons


async def test_each_part_and_its_library_return_the_same() -> None:
    compared = list(comparisons(asyncio.get_running_loop()))
    assert [one.name.partition(":")[0] for one in compared] == ["HTTP/2", "TLS", "cron", "CEL"]
    for one in compared:
        assert one.ours() == one.library()
        one.close()
