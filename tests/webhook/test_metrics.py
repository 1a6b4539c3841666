"""The metrics of webhooks, with the names that controller-runtime's dashboards use."""

import asyncio

import pytest

from steersman import DeniedError
from steersman.k8s import ConfigMap
from steersman.telemetry.registry import REGISTRY

from .conftest import review

CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "prod"}}


def value(name, **labels):
    return REGISTRY.get_sample_value(f"controller_runtime_webhook_{name}", {"webhook": "/hook", **labels}) or 0.0


@pytest.mark.parametrize(
    ("outcome", "code", "panics"), [(None, "200", 0), (DeniedError("no"), "200", 0), (RuntimeError("oh"), "500", 1)]
)
async def test_each_review_is_counted_by_what_it_was_answered_with(route_of, outcome, code, panics):
    """H3: a refusal is an answer; a crash is none, and a panic."""

    def handle(_obj, _ctx):
        if outcome is not None:
            raise outcome

    before = value("requests_total", code=code), value("latency_seconds_count"), value("panics_total")
    await route_of(ConfigMap, handle, "validates")(review(CONFIGMAP))
    after = value("requests_total", code=code), value("latency_seconds_count"), value("panics_total")
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, panics]


async def test_reviews_in_flight_are_told(route_of):
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def wait(_obj, _ctx):
        begun.set()
        await may_end.wait()

    asking = asyncio.create_task(route_of(ConfigMap, wait, "validates")(review(CONFIGMAP)))
    await begun.wait()
    assert value("requests_in_flight") == 1
    may_end.set()
    await asking
    assert value("requests_in_flight") == 0
