"""The stages of an event are measured without overlap, and system calls are read from what strace prints."""

from __future__ import annotations

import time

from benchmarks.peers.stages_peer import LOOP, Clocks
from benchmarks.stages import counted

STRACE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.50    0.009721          32       299           epoll_wait
 38.22    0.006041          40       151         2 recvfrom
------ ----------- ----------- --------- --------- ----------------
100.00    0.015762          35       450         2 total
"""


def work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_system_calls_are_counted_with_and_without_errors() -> None:
    assert counted(STRACE) == {"epoll_wait": 299, "recvfrom": 151}


def test_the_time_of_a_stage_is_without_the_stages_that_it_calls() -> None:
    clocks = Clocks()
    inner = clocks.timed("inner", lambda: work(0.02))

    def both() -> None:
        work(0.005)
        inner()

    outer = clocks.timed("outer", both)
    clocks.bind()
    outer()
    assert clocks.spent["inner"] >= 15_000_000
    assert 4_000_000 <= clocks.spent["outer"] < clocks.spent["inner"]
    assert clocks.spent[LOOP] < clocks.spent["outer"]


async def test_a_coroutine_function_stays_one_and_returns_its_result() -> None:
    clocks = Clocks()

    async def answer(number: int) -> int:
        work(0.005)
        return number

    clocks.bind()
    assert await clocks.timed("answer", answer)(42) == 42
    assert clocks.spent["answer"] >= 4_000_000
