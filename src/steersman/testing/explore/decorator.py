"""`explored`: a pytest test that runs its scenario once as the reference and once for each plan."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from steersman.operator.settings.values import parse_duration
from steersman.testing.explore.exploration import DEFAULT_PERTURB, Compare, Exploration, Failure, Request, explore
from steersman.testing.explore.forks import forks
from steersman.testing.explore.observation import Invariant
from steersman.testing.explore.options import RunOptions
from steersman.testing.explore.page import page
from steersman.testing.explore.plans import Plan
from steersman.testing.explore.report import coverage_text, failure_text, replay_command
from steersman.testing.explore.running import Job, Scenario
from steersman.testing.explore.separate import SeparateError, explore_separately, importable

__all__ = ["ALL_VARIABLE", "PLAN_VARIABLE", "Explored", "ExploredError", "explored", "thorough"]

ALL_VARIABLE = "STEERSMAN_EXPLORE_ALL"
"""The environment variable that turns on explorations of minutes."""

PLAN_VARIABLE = "STEERSMAN_EXPLORE_PLAN"
"""The environment variable with the plans to run instead of all, separated by commas."""
PAGES_VARIABLE = "STEERSMAN_EXPLORE_PAGES"
"""The environment variable with the directory for the pages of failures."""
RESULTS_VARIABLE = "STEERSMAN_EXPLORE_RESULTS"
"""The environment variable with a file to which each exploration adds its result, as a line of JSON."""
DEFAULT_PAGES = ".steersman/explore"
"""The default directory of the pages, relative to the working directory."""
I = TypeVar("I", bound=Callable[..., object])  # noqa: E741 - an invariant


class ExploredError(AssertionError):
    """The operator does not survive a plan; the message has the plan, the findings and the way to replay it."""


class Progress:
    """Writes a line about an exploration every ten seconds, if explorations of minutes are turned on.

    Args:
        name: The name of the test.
    """

    INTERVAL_SECONDS = 10.0

    def __init__(self, name: str) -> None:
        self._name = name
        self._shown = thorough()
        self._next = time.monotonic() + self.INTERVAL_SECONDS

    def __call__(self, result: Exploration, share: float) -> None:
        """Write the line, if it is time.

        Args:
            result: The exploration so far.
            share: The finished share of the plans or of the budget, whichever is greater.
        """
        if self._shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + self.INTERVAL_SECONDS
            failed = f", {len(result.failures)} failed" if result.failures else ""
            sys.stderr.write(f"{self._name}: {share:.0%}, {result.runs} runs, {result.cpu:.0f} s of CPU{failed}\n")
            sys.stderr.flush()


class Explored:
    """A test that explores a scenario. `explored` creates it; a call runs it."""

    def __init__(self, scenario: Callable[..., Awaitable[None]], options: dict[str, Any]) -> None:
        self.scenario = scenario
        self.invariants: list[Invariant] = []
        self.compare: Compare | None = None
        self.last: Exploration | None = None
        """The result of the last run."""
        self._options = options
        functools.update_wrapper(self, scenario)
        del self.__wrapped__  # type: ignore[attr-defined]

    def always(self, invariant: I) -> I:
        """Check a function of the `State` at every commit: it may assert, or return False or a message."""
        self.invariants.append(invariant)
        return invariant

    def finally_(self, compare: I) -> I:
        """Compare the end of a run with the end of the reference by a function, instead of requiring equality."""
        self.compare = compare  # type: ignore[assignment]
        return compare

    def request(self, *, fixtures: dict[str, Any] | None = None, plans: Sequence[Plan] = ()) -> Request:
        """Return the request for `explore`."""
        options = dict(self._options)
        run_options = RunOptions(
            **{k: options.pop(k) for k in ("latency", "stabilization", "within", "hot_writes") if k in options}
        )
        scenario: Scenario = functools.partial(self.scenario, **fixtures) if fixtures else self.scenario
        job = Job(
            scenario, run_options, options.pop("cluster", {}), tuple(self.invariants),
            frozenset(options.pop("ignore", ())), frozenset(options.pop("mask", ())),
        )  # fmt: skip
        asked = [Plan.read(text) for text in os.environ.get(PLAN_VARIABLE, "").split(",") if text]
        return Request(
            job=job,
            budget=parse_duration(options.pop("budget", "60s")),
            allow=frozenset(options.pop("allow", ())),
            plans=asked or tuple(plans) or tuple(Plan.read(text) for text in options.pop("plans", ())),
            compare=self.compare,
            **{key: value for key, value in options.items() if key != "plans"},
        )

    def explore(self, **fixtures: Any) -> Exploration:
        """Explore the scenario and return the result, with or without failures.

        A process with threads cannot fork, so the test is then explored in a separate process that imports it.
        """
        self.last = self._explored_separately(fixtures) or explore(
            self.request(fixtures=fixtures), progress=Progress(self.scenario.__qualname__)
        )
        if thorough():
            sys.stderr.write(f"{self.scenario.__qualname__}: {coverage_text(self.last)}\n")
        if file := os.environ.get(RESULTS_VARIABLE):
            with Path(file).open("a", encoding="utf-8") as results:
                results.write(json.dumps({"test": self._test_id(), **self.last.as_json()}) + "\n")
        return self.last

    def _explored_separately(self, fixtures: dict[str, Any]) -> Exploration | None:
        """Return the result of a separate process; `None` if this process can fork or the test cannot be imported."""
        if forks() or not hasattr(os, "fork") or (place := importable(self)) is None:
            return None
        try:
            return explore_separately(place, fixtures)
        except SeparateError:
            return None

    def __call__(self, **fixtures: Any) -> None:
        """Explore the scenario; raises `ExploredError` if a plan has findings."""
        result = self.explore(**fixtures)
        if result.failures:
            test = self._test_id()
            raise ExploredError(failure_text(result, test, page=self._page(result.failures[0], test)))

    def _test_id(self) -> str:
        return (
            os.environ.get("PYTEST_CURRENT_TEST", self.scenario.__qualname__).rpartition(" ")[0]
            or self.scenario.__qualname__
        )

    def _page(self, failure: Failure, test: str) -> Path | None:
        """Write the page of a failure; errors of the directory are ignored, so that the failure is still reported."""
        directory = Path(os.environ.get(PAGES_VARIABLE, DEFAULT_PAGES))
        path = directory / f"{re.sub('[^A-Za-z0-9_.-]+', '-', test)[-150:]}.html"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if PAGES_VARIABLE not in os.environ:
                (directory / ".gitignore").write_text("*\n", encoding="utf-8")
            path.write_text(page(failure, replay_command(failure, test)), encoding="utf-8")
        except OSError:
            return None
        return path.resolve()


def thorough() -> bool:
    """Return whether explorations of minutes are turned on."""
    return bool(os.environ.get(ALL_VARIABLE))


def explored(
    *,
    seeds: int = 1,
    budget: str = "60s",
    perturb: Sequence[str] = DEFAULT_PERTURB,
    plans: Sequence[str] = (),
    allow: Sequence[str] = (),
    ignore: Sequence[str] = (),
    mask: Sequence[str] = (),
    jobs: int = 0,
    stop_at: int = 1,
    external: bool = False,
    to_end: bool = False,
    pairs: bool = True,
    long: bool = False,
    cluster: dict[str, Any] | None = None,
    **run: float,
) -> Callable[[Callable[..., Awaitable[None]]], Any]:
    """Explore the failures of an operator in a scenario: an `async def` test whose first argument is a `ScenarioRun`.

    The scenario runs once as the reference, and once for each plan: crashes, lost responses, late and missed events.

    Args:
        seeds: The number of seeds.
        budget: CPU time on each processor, such as `60s` or `5m`.
        perturb: The kinds of faults: names of `PERTURBATIONS`.
        plans: Plans to run instead of those of the reference; a regression test names the plans of former failures.
        allow: Oracles whose findings do not count.
        ignore: Resources that are not compared at the end, such as `secrets`.
        mask: Names of fields whose values are not compared, such as a counter.
        jobs: The number of runs at a time; by default the number of processors.
        stop_at: The number of failures after which the exploration ends.
        external: Whether the operator changes state outside of the cluster, so that writes without effect matter.
        to_end: Whether each run continues to the end of the scenario when it has the state of the reference.
        pairs: Whether pairs of faults are run when all single faults have passed.
        long: Whether the test is skipped unless the environment variable STEERSMAN_EXPLORE_ALL is set, because it
            takes as many minutes as its budget allows.
        cluster: Options of `Simulation.start`.
        run: Options of `RunOptions`: `latency`, `stabilization`, `within`, `hot_writes`.

    Raises:
        ExploredError: When the test runs, if a plan has findings.
    """
    options: dict[str, Any] = {
        "seeds": seeds, "budget": budget, "perturb": tuple(perturb), "plans": tuple(plans), "allow": tuple(allow),
        "ignore": tuple(ignore), "mask": tuple(mask), "jobs": jobs, "stop_at": stop_at,
        "external": external, "to_end": to_end, "pairs": pairs, "cluster": cluster or {}, **run,
    }  # fmt: skip

    def decorate(scenario: Callable[..., Awaitable[None]]) -> Any:
        made = Explored(scenario, options)
        fixtures = list(inspect.signature(scenario).parameters.values())[1:]

        @functools.wraps(scenario)
        def test(**given: Any) -> None:
            if long and not thorough():
                import pytest

                pytest.skip(f"explores for minutes, as far as its budget allows: set {ALL_VARIABLE}")
            made(**given)

        # functools.wraps sets `__wrapped__` to the coroutine function, but pytest must find a plain function.
        del test.__wrapped__  # type: ignore[attr-defined]
        test.__signature__ = inspect.Signature(fixtures)  # type: ignore[attr-defined]
        for name in ("always", "finally_", "explore", "request"):
            setattr(test, name, getattr(made, name))
        test.explored = made  # type: ignore[attr-defined]
        return test

    return decorate
