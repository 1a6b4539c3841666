"""Effects of a plan on brokers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import structlog

from rocketmq.brokers.effects import Effects
from rocketmq.brokers.names import Member
from rocketmq.brokers.plan import Configure
from tests.test_broker_plan import ENDPOINTS, broker


class OneBroker:
    """A broker that ignores values that are not numbers, as RocketMQ does."""

    def __init__(self) -> None:
        self.settings = {"fileReservedTime": "72", "maxMessageSize": "4194304"}

    @asynccontextmanager
    async def broker(self, address: str) -> AsyncGenerator[Any]:
        yield self

    async def update_config(self, settings: Mapping[str, str]) -> None:
        self.settings |= {name: str(int(value)) for name, value in settings.items() if value.isdecimal()}

    async def config(self) -> dict[str, str]:
        return dict(self.settings)


async def configured(servers: OneBroker, settings: Mapping[str, str]) -> tuple[str, ...]:
    ctx: Any = SimpleNamespace(log=structlog.get_logger())
    source: Any = servers
    return await Effects(broker(groups=[0]), ctx, source, ENDPOINTS).perform((Configure(Member(0, 1), settings),))


async def test_a_setting_that_a_broker_accepts_has_no_problem():
    servers = OneBroker()
    assert await configured(servers, {"fileReservedTime": "024"}) == ()
    assert servers.settings["fileReservedTime"] == "24"


async def test_a_setting_that_a_broker_ignores_is_reported_with_its_value():
    (problem,) = await configured(OneBroker(), {"fileReservedTime": "a day", "maxMessageSize": "65536"})
    assert "mq-0-1-0 does not accept fileReservedTime=a day (it has 72)" in problem
    assert "spec.config" in problem
    assert "maxMessageSize" not in problem
