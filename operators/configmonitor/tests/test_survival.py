"""The operator survives a crash at every write, lost responses, conflicts, and late and missed events."""

from __future__ import annotations

from typing import Any

import pytest
from steersman.testing.explore import ScenarioRun, explored


def config_map(value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"a": value}}


FRONTEND = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "frontend"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "frontend"}},
        "template": {
            "metadata": {"labels": {"app": "frontend"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]},
        },
    },
}
MONITOR = {
    "apiVersion": "magalix.com/v1",
    "kind": "ConfigMonitor",
    "metadata": {"name": "m"},
    "spec": {"configMap": "config", "podSelector": {"app": "frontend"}},
}


async def life(run: ScenarioRun) -> None:
    await run.operator("configmonitor:operator")
    await run.apply(config_map("1"), FRONTEND)
    await run.settled()
    await run.apply(MONITOR)
    await run.settled()
    await run.apply(config_map("2"))
    await run.settled()
    await run.delete("configmonitor", "m")
    await run.settled()


@pytest.mark.slow
@explored(budget="60s", perturb=("crash", "lost-answer", "conflict"))
async def test_a_change_of_a_config_map_restarts_the_pods_in_spite_of_crashes(run: ScenarioRun) -> None:
    await life(run)


@pytest.mark.slow
@explored(long=True, budget="60s", perturb=("lag", "miss"), ignore=("configmonitors.magalix.com",))
async def test_late_and_missed_events_end_in_the_same_pods(run: ScenarioRun) -> None:
    """The status differs: an operator that never saw the first data reports no restart for a change."""
    await life(run)
