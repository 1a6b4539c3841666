"""The operator survives a crash at every write, lost responses, conflicts, and late and missed events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from steersman.testing.explore import NormalState, ScenarioRun, explored

NEW_IMAGE = "busybox:1.37"


def sidecarset(image: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "SidecarSet",
        "metadata": {"name": "s"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "sidecar", "image": image, "command": ["sleep", "999d"]}],
        },
    }


WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]},
        },
    },
}


async def life(run: ScenarioRun) -> None:
    await run.operator("sidecarset:operator")
    await run.apply(sidecarset("busybox:1.36"))
    await run.settled()
    await run.apply(WEB)
    await run.settled()
    await run.apply(sidecarset(NEW_IMAGE))
    await run.settled()


@pytest.mark.slow
@explored(long=True, budget="60s", perturb=("crash", "lost-answer", "conflict"))
async def test_a_sidecar_is_injected_updated_and_left_alone_in_spite_of_crashes(run: ScenarioRun) -> None:
    await life(run)
    await run.delete("sidecarset", "s")
    await run.settled()


@pytest.mark.slow
@explored(long=True, budget="60s", perturb=("lag", "miss"))
async def test_the_status_counts_pods_correctly_after_late_and_missed_events(run: ScenarioRun) -> None:
    """A Pod that is created while the webhook does not know the SidecarSet has no sidecar; the status says so."""
    await life(run)


@test_the_status_counts_pods_correctly_after_late_and_missed_events.finally_
def updated_pods_have_the_new_image(_: NormalState, end: NormalState) -> None:
    pods = [json.loads(text) for key, texts in end.items() if key.startswith("pods/") for text in texts]
    updated = sum(
        any(one["name"] == "sidecar" and one["image"] == NEW_IMAGE for one in pod["spec"]["containers"]) for pod in pods
    )
    (text,) = end["sidecarsets.apps.kruise.io/s"]
    status = json.loads(text)["status"]
    assert (status["matchedPods"], status["updatedPods"]) == (len(pods), updated), status
