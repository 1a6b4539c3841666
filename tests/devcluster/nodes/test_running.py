"""Processes that are started, and those that are not."""

import asyncio
import gc
import os

import pytest

from steersman.devcluster.nodes.process.running import children_of, spawn


async def turns(number: int) -> None:
    """Let the loop turn so often."""
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("between", [0, 1, 2, 3, 5, 8, 13, 21, 34])
async def test_a_start_that_is_cancelled_again_and_again_leaves_no_process(between: int) -> None:
    before = set(children_of(os.getpid()))
    output: list[bytes] = []
    starting = asyncio.create_task(
        spawn(
            ("sleep", "1000"), os.environ, None, on_output=lambda _, data: output.append(data), on_exit=lambda _: None
        )
    )
    while set(children_of(os.getpid())) == before:  # then the process is there, its pipes are not
        await turns(1)
    while not starting.done():
        starting.cancel()
        await turns(1 + between)
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert set(children_of(os.getpid())) == before
    gc.collect()  # complains of what is left open
    assert not output


async def test_a_command_that_cannot_be_started_says_so() -> None:
    with pytest.raises(FileNotFoundError):
        await spawn(("/no/such/program",), {}, None, on_output=lambda *_: None, on_exit=lambda _: None)
