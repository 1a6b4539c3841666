"""A topic that a change of the master loses is created again."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq.remoting import RemotingError
from tests import process_cluster


@pytest.mark.parametrize("first", ["lost", "refused"])
def test_a_topic_is_created_again_until_it_has_a_route(monkeypatch: pytest.MonkeyPatch, first: str):
    created: list[str] = []

    def create(cluster: object, ports: object, found: dict[str, Any], topic: str) -> None:
        created.append(found["groups"][0]["master"])
        if first == "refused" and len(created) == 1:
            raise RemotingError("connection refused")

    masters = iter(["a", "b"])
    monkeypatch.setattr(process_cluster, "ROUTE_SECONDS", 0.01)
    monkeypatch.setattr(process_cluster, "create_topic", create)
    monkeypatch.setattr(process_cluster, "status", lambda cluster: {"groups": [{"master": next(masters)}]})
    monkeypatch.setattr(process_cluster, "is_routed", lambda routes, groups, topic: created[-1] == "b")
    nothing: Any = None
    process_cluster.create_routed_topic(nothing, nothing, nothing, "orders")
    assert created == ["a", "b"]
