"""`any_sequence`: a pytest test that explores random sequences of changes of a custom resource.

    test_any_sequence_of_changes = any_sequence("myapp:operator", App, base=APP)

Each sequence runs once without faults, and with some plans of faults. The end of a sequence must be the end of its last
manifest alone: a level-triggered operator does not depend on the history. A failing sequence is reduced, with its plan.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from steersman.models import Resource
from steersman.operator.operator import Operator
from steersman.operator.settings.values import parse_duration
from steersman.testing.explore.decorator import ExploredError
from steersman.testing.explore.exploration import Exploration, Failure, Request, Trial, later_runner
from steersman.testing.explore.findings import Finding
from steersman.testing.explore.generation import REFUSED, ChangeSequence, sequences_of
from steersman.testing.explore.observation import Invariant
from steersman.testing.explore.options import RunOptions
from steersman.testing.explore.planning import candidates
from steersman.testing.explore.plans import Plan
from steersman.testing.explore.report import coverage_text, failure_lines
from steersman.testing.explore.running import Job, Runner

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["SequenceFailure", "SequenceResult", "any_sequence", "explore_sequences"]


@dataclass(frozen=True, slots=True)
class SequenceFailure:
    """The smallest sequence that fails, with its smallest plan."""

    sequence: ChangeSequence
    failure: Failure

    def text(self) -> str:
        """Return the message of a test: the sequence as a scenario file, the plan and the findings."""
        scenario = "\n".join(f"    {line}" for line in self.sequence.text().splitlines())
        replay = f"steersman explore MODULE:OPERATOR --scenario FILE --plan '{self.failure.plan}'"
        return "\n".join((*failure_lines(self.failure, replay), "  scenario file:", scenario))


@dataclass(slots=True)
class SequenceResult:
    """The result of an exploration of sequences."""

    failure: SequenceFailure | None = None
    sequences: int = 0
    """The number of sequences that were played."""
    exploration: Exploration = field(default_factory=Exploration)


def explore_sequences(
    operator: Callable[[], Operator] | str,
    kind: type[Resource],
    *,
    base: Mapping[str, Any],
    vary: Sequence[str] = (),
    values: Mapping[str, SearchStrategy[Any]] | None = None,
    steps: int = 4,
    sequences: int = 50,
    plans: int = 5,
    perturb: Sequence[str] = ("crash",),
    budget: str = "60s",
    history: bool = True,
    always: Sequence[Invariant] = (),
    allow: Sequence[str] = (),
    ignore: Sequence[str] = (),
    mask: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
) -> SequenceResult:
    """Explore random sequences of changes of one object, and return the smallest one that fails.

    Args:
        operator: A factory of the operator, or `module:attribute`.
        kind: The class of the object.
        base: A valid manifest, with which each sequence begins.
        vary: The fields of `spec` that change, in wire names; all if empty.
        values: Strategies for the values of fields, as for `steersman.testing.conversion.objects`.
        steps: Most changes of a sequence.
        sequences: Most sequences that are generated, without those of the reduction.
        plans: Most plans of faults for each sequence, evenly distributed over those of its reference run.
        perturb: The kinds of faults: names of `PERTURBATIONS`.
        budget: CPU time, such as `60s`; afterwards no sequence is generated.
        history: Whether the end of a sequence must be that of its last manifest alone.
        always: Invariants, as of `explored`.
        allow: Oracles whose findings do not count.
        ignore: Resources that are not compared, such as `persistentvolumeclaims`, which a StatefulSet keeps.
        mask: Names of fields whose values are not compared, as of `explored`.
        settings: Settings of the operator.
        seed: The seed of the cluster and of the generator.
    """
    import hypothesis as h

    from steersman.manifests.config_directory import crds

    (definition,) = crds([kind])
    strategy = sequences_of(kind, base, vary=vary, values=values, steps=steps, definition=definition)
    result = SequenceResult()
    job = Job(_nothing, RunOptions(), {}, tuple(always), frozenset(ignore), frozenset(mask))
    request = Request(job=job, perturb=perturb, allow=frozenset(allow), budget=parse_duration(budget), jobs=1)
    began = time.monotonic()
    with Runner(job, seed) as runner, later_runner(job, seed) as later:
        search = _Search(
            request,
            runner,
            later,
            seed,
            result,
            partial(_played, operator, dict(settings or {})),
            plans,
            history=history,
        )

        @h.seed(seed)
        @h.settings(
            max_examples=sequences, database=None, deadline=None, report_multiple_bugs=False,
            suppress_health_check=[h.HealthCheck.too_slow, h.HealthCheck.data_too_large],
            phases=(h.Phase.generate, h.Phase.shrink),
            verbosity=h.Verbosity.quiet, print_blob=False,
        )  # fmt: skip
        @h.given(strategy)
        def fails(sequence: ChangeSequence) -> None:
            failure = search.judged(sequence)
            if failure is not None:
                result.failure = SequenceFailure(sequence, failure)
                raise _FoundError

        with suppress(_FoundError):
            fails()
    result.exploration.seconds = time.monotonic() - began
    if result.failure is not None:
        result.exploration.failures = [result.failure.failure]
    return result


def any_sequence(operator: Callable[[], Operator] | str, kind: type[Resource], **options: Any) -> Callable[[], None]:
    """Return a pytest test that explores random sequences of changes.

    Args:
        operator: A factory of the operator, or `module:attribute`.
        kind: The class of the object.
        options: As for `explore_sequences`.

    Raises:
        ExploredError: When the test runs, if a sequence fails.
    """

    def test_any_sequence() -> None:
        result = explore_sequences(operator, kind, **options)
        if result.failure is not None:
            raise ExploredError(f"{result.failure.text()}\n{coverage_text(result.exploration)}")

    return test_any_sequence


class _FoundError(Exception):
    """A sequence fails; hypothesis reduces it."""


class _Search:
    """Judges sequences; the result of each is kept, so that the reduction is consistent."""

    def __init__(
        self,
        request: Request,
        runner: Runner,
        later: Runner,
        seed: int,
        result: SequenceResult,
        played: Callable[[ChangeSequence], Any],
        plans: int,
        *,
        history: bool,
    ) -> None:
        self._request = request
        self._runner = runner
        self._later = later
        self._seed = seed
        self._result = result
        self._played = played
        self._history = history
        self._plans = plans
        self._known: dict[str, Failure | None] = {}

    def judged(self, sequence: ChangeSequence) -> Failure | None:
        """Return the failure of a sequence, or `None`; also `None` without a run when the budget is spent."""
        key = json.dumps(sequence.manifests, sort_keys=True)
        if key not in self._known:
            if self._result.exploration.cpu > self._request.budget and self._result.failure is None:
                return None
            self._known[key] = self._played_and_judged(sequence)
        return self._known[key]

    def _played_and_judged(self, sequence: ChangeSequence) -> Failure | None:
        trial = self._trial(sequence)
        reference = trial.refer()
        self._result.sequences += 1
        if any(mark.text == REFUSED for mark in reference.trace.marks):
            return None
        found = trial.judge(reference)
        if not found and self._history and len(sequence.manifests) > 1:
            found = self._of_history(sequence, trial)
        if found:
            return Failure(Plan(), self._seed, found, reference, reference)
        every = candidates(reference.trace, self._request.perturb).plans
        chosen = every[:: max(1, len(every) // self._plans)][: self._plans] if self._plans else ()
        return trial.first_failure(chosen)

    def _of_history(self, sequence: ChangeSequence, trial: Trial) -> list[Finding]:
        if "history" in self._request.allow:
            return []
        direct = self._trial(sequence.direct()).refer()
        self._runner.play(self._played(sequence))
        return [
            Finding("history", f"the end differs from that of the last manifest alone: {line}")
            for line in trial.end_differences(direct)[:10]
        ]

    def _trial(self, sequence: ChangeSequence) -> Trial:
        scenario = self._played(sequence)
        self._runner.play(scenario)
        return Trial(self._request, scenario, self._runner, self._later, self._seed, self._result.exploration)


def _played(operator: Any, settings: Mapping[str, Any], sequence: ChangeSequence) -> Any:
    return partial(sequence.play, operator=operator, settings=settings)


async def _nothing(_world: object) -> None:
    raise AssertionError("a sequence is played instead")
