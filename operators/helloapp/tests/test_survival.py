"""The operator survives a crash at every write, lost responses, conflicts, and late and missed events."""

from __future__ import annotations

from typing import Any

import pytest
from steersman.testing.explore import ScenarioRun, explored


def helloapp(image: str, size: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps.anupam.com/v1",
        "kind": "HelloApp",
        "metadata": {"name": "a"},
        "spec": {"image": image, "size": size},
    }


async def life_of_a_helloapp(run: ScenarioRun) -> None:
    """Create a HelloApp, change it, repair a deleted child, and delete it."""
    await run.operator("helloapp:operator")
    await run.apply(helloapp("nginx:1.27", 1))
    await run.settled()
    await run.apply(helloapp("nginx:1.28", 2))
    await run.settled()
    await run.delete("deployment", "a")
    await run.settled()
    await run.delete("helloapp", "a")
    await run.settled()


@pytest.mark.slow
@explored(budget="60s", perturb=("crash", "lost-answer", "conflict"))
async def test_a_helloapp_survives_crashes_lost_answers_and_conflicts(run: ScenarioRun) -> None:
    await life_of_a_helloapp(run)


@pytest.mark.slow
@explored(long=True, budget="60s", perturb=("lag", "miss"))
async def test_a_helloapp_survives_late_and_missed_events(run: ScenarioRun) -> None:
    await life_of_a_helloapp(run)


@pytest.mark.slow
@explored(plans=("hold:E26..S3",))
async def test_a_retry_after_a_conflict_ends_before_the_states_are_compared(run: ScenarioRun) -> None:
    """The status of late events is rejected as a conflict, and the next retry is later than the events."""
    await life_of_a_helloapp(run)
