"""The consumption at the end of a history waits for a master."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq.remoting import RemotingError
from tests import workload


class Lane(workload.Workload):
    """A workload whose group has no master at the first reads."""

    def __init__(self, failures: int) -> None:
        nothing: Any = None
        super().__init__(nothing, [("mq-0", 0)])
        self.acknowledged = {"mq-0/0": [1, 2]}
        self.failures = failures

    async def numbers(self, group: str, queue: int) -> list[int]:
        self.failures -= 1
        if self.failures >= 0:
            raise RemotingError(f"group {group} has no master")
        return [1, 2]


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "RETRY_SECONDS", 0.0)


def test_messages_are_read_when_the_group_has_a_master_again():
    assert Lane(failures=2).report().sound


def test_a_group_that_stays_without_a_master_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workload, "CONSUME_SECONDS", -1.0)
    with pytest.raises(RemotingError, match=r"mq-0/0 cannot be read .* seconds: group mq-0 has no master"):
        Lane(failures=1).report()
