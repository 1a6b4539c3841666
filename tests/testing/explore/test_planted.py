"""The explorer finds six classes of bugs, and finds nothing in the correct twins."""

from __future__ import annotations

import pytest

from steersman.testing.explore import ScenarioRun, State, explored, thorough
from steersman.testing.explore.decorator import Explored

from .planted import CLASSES, CLOUD, app

SEEDS = 10 if thorough() else 1
OTHERS = ("example.com/other",)


def exploration(name: str, *, correct: bool, **options: object) -> Explored:
    async def life(run: ScenarioRun) -> None:
        run.external(CLOUD)
        await run.operator(lambda: CLASSES[name](correct))
        await run.apply(app(2, finalizers=OTHERS if name == "deletion_seen" else ()))
        await run.settled()
        if name == "stale_pods":
            await run.apply(app(1))
            await run.settled()
            return
        await run.delete("app", "a")
        if name == "deletion_seen":
            await run.passes(1.0)
            await run.client.raw.request(
                "PATCH",
                "/apis/planted.steersman.dev/v1/namespaces/default/apps/a",
                body=b'[{"op":"test","path":"/metadata/finalizers/0","value":"example.com/other"},'
                b'{"op":"remove","path":"/metadata/finalizers/0"}]',
                content_type="application/json-patch+json",
            )
        await run.settled()

    test = explored(jobs=1, external=name == "finalizer_once", **options)(life)  # type: ignore[arg-type]
    if name == "stale_pods":

        @test.always
        def claims_outlive_their_pods(state: State) -> None:
            if state.get("apps.planted.steersman.dev", "a") is None:
                return  # the garbage collector deletes everything, in any order
            if state.event is not None and state.event.type == "DELETED" and state.changed == "persistentvolumeclaims":
                assert state.get("pods", state.event.item.name) is None, f"claim {state.event.item.name} had a Pod"

    return test.explored


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_the_explorer_finds_the_bug(name: str) -> None:
    result = exploration(name, correct=False).explore()
    assert result.failures, f"{name}: {result.as_json()}"


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_the_correct_twin_raises_no_alarm(name: str) -> None:
    """Single faults with one seed; `make explore` has ten seeds, and adds pairs of faults."""
    result = exploration(name, correct=True, seeds=SEEDS, budget="300s", pairs=thorough()).explore()
    assert [f"{f.plan}: {'; '.join(map(str, f.findings))}" for f in result.failures] == []
    assert result.seeds == SEEDS
