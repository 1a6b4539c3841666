"""Random sequences of changes are valid, and a bug that only a sequence reaches is found and reduced."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from steersman import CEL, Context, Model, ObjectMeta, Operator, Resource
from steersman.k8s import ConfigMap
from steersman.manifests.config_directory import crds
from steersman.testing.explore import (
    ChangeSequence,
    ExploredError,
    SequenceResult,
    any_sequence,
    explore_sequences,
    thorough,
)
from steersman.testing.explore.generation import sequences_of

from .public_bugs import cockroach_993, redis_209, tidb_4942

SEEDS = 10 if thorough() else 1
WORDS = st.sampled_from(["x", "y"])
ACTO: dict[str, tuple[Any, dict[str, Any]]] = {
    "tidb_4942": (tidb_4942, {"values": {"spec.discoveryLabels{}": WORDS}}),
    "redis_209": (
        redis_209,
        {
            "values": {"spec.nodeSelector": st.sampled_from([{}, {"disk": "none"}])},
            # A StatefulSet keeps its current revision until the Pods of the next one are ready.
            "mask": ("currentRevision", "currentReplicas", "updatedReplicas"),
        },
    ),
    "cockroach_993": (
        cockroach_993,
        {
            "values": {"spec.additionalLabels{}": WORDS},
            "ignore": ("persistentvolumeclaims", "persistentvolumes"),  # a StatefulSet leaves its claims
        },
    ),
}


def explored(name: str, *, correct: bool, seed: int = 1) -> SequenceResult:
    module, options = ACTO[name]
    return explore_sequences(
        lambda: module.operator(correct), module.KIND, base=module.BASE, sequences=12 if correct else 60,
        steps=3, plans=1, budget="40s", seed=seed,
        **options,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTO)
def test_a_public_bug_that_needs_a_sequence_of_changes_is_found(name: str) -> None:
    result = explored(name, correct=False)
    assert result.failure is not None
    assert 2 <= len(result.failure.sequence.manifests) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTO)
def test_the_correct_operator_ends_each_sequence_like_its_last_manifest(name: str) -> None:
    for seed in range(1, SEEDS + 1):
        result = explored(name, correct=True, seed=seed)
        assert result.failure is None, f"seed {seed}: {result.failure and result.failure.text()}"
        assert result.sequences > 3


class GrowingSpec(Model):
    size: Annotated[int, Meta(ge=1, le=5)] = 1
    zone: str = "a"


class Growing(Resource, group="sequences.steersman.dev", version="v1"):
    """An object that never shrinks, and that is small in zone b."""

    __rules__ = (
        CEL("self.spec.size >= oldSelf.spec.size", message="size cannot decrease"),
        CEL("self.spec.zone != 'b' || self.spec.size < 3", message="zone b is small"),
    )

    spec: GrowingSpec = GrowingSpec()


BASE = {
    "apiVersion": "sequences.steersman.dev/v1",
    "kind": "Growing",
    "metadata": {"name": "a"},
    "spec": {"size": 2, "zone": "a"},
}
(DEFINITION,) = crds([Growing])


@settings(max_examples=60, database=None, deadline=None)
@given(sequences_of(Growing, BASE, values={"spec.zone": st.sampled_from(["a", "b"])}, definition=DEFINITION))
def test_a_sequence_obeys_the_schema_and_the_rules_that_compare_with_the_former_object(
    sequence: ChangeSequence,
) -> None:
    assert sequence.manifests[0] == BASE
    before = 0
    for manifest in sequence.manifests:
        if manifest is None:
            before = 0
            continue
        size, zone = manifest["spec"].get("size", 1), manifest["spec"].get("zone", "a")
        assert 1 <= size <= 5
        assert size >= before
        assert zone != "b" or size < 3
        before = size


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match=r"vary: Growing has no field spec\.colour; the fields are size, zone"):
        sequences_of(Growing, BASE, vary=("colour",), definition=DEFINITION)


def remembers() -> Operator:
    """Keeps the largest size in its child: its end depends on the history."""
    operator = Operator("remembers")

    @operator.controller(owns=[ConfigMap])
    async def reconcile(growing: Growing, ctx: Context) -> None:
        before = ctx.get(ConfigMap, "a")
        zones = {*((before.data or {}).get("zones", "").split() if before else ()), growing.spec.zone}
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="a"), data={"zones": " ".join(sorted(zones))}))

    return operator


@pytest.mark.slow
def test_the_message_has_the_smallest_sequence_as_a_scenario_file() -> None:
    test = any_sequence(
        remembers, Growing, base=BASE, values={"spec.zone": st.sampled_from(["a", "b"])}, sequences=12, plans=0
    )
    with pytest.raises(ExploredError) as caught:
        test()
    text = str(caught.value)
    assert "history: the end differs from that of the last manifest alone: configmaps/default/a" in text
    assert text.count("- apply:") == 2
    assert "zone: b" in text
