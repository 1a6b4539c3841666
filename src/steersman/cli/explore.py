"""`steersman explore`: runs a scenario with every crash, lost response, late event and missed event."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer

from steersman.cli.operator_loader import LoadError, load_factory
from steersman.cli.target import Target
from steersman.extras import require

if TYPE_CHECKING:
    from steersman.testing.explore import Exploration, Failure, Plan, Request

__all__ = ["explore"]

INTERRUPTED = 130
_FAULTS = "Faults"
_BOUNDS = "Limits"


def explore(
    target: Target,
    scenario: Annotated[
        Path,
        typer.Option("--scenario", "-s", help="Manifests of custom objects, or a file with `steps`.", dir_okay=False),
    ],
    perturb: Annotated[
        list[str] | None,
        typer.Option(
            help="crash, lost-answer, conflict, lag, miss, past or pause; may be repeated. The first five by default.",
            rich_help_panel=_FAULTS,
        ),
    ] = None,
    plan: Annotated[
        list[str] | None,
        typer.Option(help="A plan to run alone, such as crash-after:W1; may be repeated.", rich_help_panel=_FAULTS),
    ] = None,
    plans: Annotated[
        Path | None,
        typer.Option(help="File with plans to run alone, one in a line.", dir_okay=False, rich_help_panel=_FAULTS),
    ] = None,
    *,
    external: Annotated[
        bool,
        typer.Option(
            "--external", help="The operator changes state outside of the cluster, too.", rich_help_panel=_FAULTS
        ),
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="A kind of finding that does not count, such as leak; may be repeated."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="A resource that is not compared, such as secrets; may be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Number of seeds.", rich_help_panel=_BOUNDS)] = 1,
    budget: Annotated[str, typer.Option(help="CPU time on each processor: 60s, 5m.", rich_help_panel=_BOUNDS)] = "60s",
    jobs: Annotated[
        int,
        typer.Option(min=0, max=1024, help="Runs at a time; 0 is one on each processor.", rich_help_panel=_BOUNDS),
    ] = 0,
    stop_at: Annotated[
        int, typer.Option(min=1, max=1000, help="Failures after which the exploration ends.", rich_help_panel=_BOUNDS)
    ] = 1,
    save: Annotated[
        Path | None, typer.Option(help="File to which the plans of failures are added.", dir_okay=False)
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="HTML file that shows the first failure beside the reference.", dir_okay=False)
    ] = None,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Find the crash, lost response, late event or missed event that breaks an operator.

    `steersman explore helloapp:operator --scenario config/samples/app.yaml` runs the scenario on a simulated cluster on
    virtual time: once as the reference, then once for each plan of faults. After a crash, the operator's package is
    imported anew, as in a new process. MODULE:OPERATOR may also name a function that returns the operator.

    Exits with 0 if the operator survives, with 1 if a plan breaks it, and with 130 after Ctrl-C; the failures
    so far are shown then, too.
    """
    require("`steersman explore`", "dev", "steersman_cluster")
    from steersman.testing.explore import Exploration
    from steersman.testing.explore import explore as run

    request = _request(
        load_factory(target) or target, scenario, _plans(plan or [], plans), seeds=seeds, budget=budget,
        perturb=perturb, allow=allow or [], ignore=ignore or [], jobs=jobs, stop_at=stop_at, external=external,
    )  # fmt: skip
    result, interrupted = Exploration(), False
    progress = ProgressLine(shown=sys.stderr.isatty())
    try:
        with Interruption(progress) as checked:
            run(request, progress=checked, result=result)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        progress.clear()
    if save is not None and result.failures:
        _save(save, result.failures, target)
    command = f"steersman explore {target} --scenario {scenario}"
    if page is not None and result.failures:
        _write_page(page, result.failures[0], command)
    if output == "json":
        typer.echo(json.dumps({**result.as_json(), "interrupted": interrupted}, indent=2))
    else:
        _print(result, command, interrupted=interrupted)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if result.failures:
        raise typer.Exit(1)


def _request(
    operator: Callable[[], Any] | str, path: Path, plans: list[Plan], *, budget: str, perturb: list[str] | None,
    allow: list[str], ignore: list[str], **options: Any,
) -> Request:  # fmt: skip
    from steersman.operator.settings.values import parse_duration
    from steersman.testing.explore import DEFAULT_PERTURB, ORACLES, PERTURBATIONS, Job, Request, RunOptions
    from steersman.testing.explore.scenario import ScenarioError, read_scenario

    for option, values, known in (("--perturb", perturb or [], PERTURBATIONS), ("--allow", allow, ORACLES)):
        if unknown := [value for value in values if value not in known]:
            raise LoadError(f"{option}: {unknown[0]!r} is unknown; write one of {', '.join(known)}")
    try:
        scenario = read_scenario(path)
        seconds = parse_duration(budget)
    except ScenarioError as problem:
        raise LoadError(str(problem)) from None
    except ValueError as problem:
        raise LoadError(f"--budget: {problem}") from None
    job = Job(partial(scenario.run, operator=operator), RunOptions(), {}, ignore=frozenset(ignore))
    return Request(
        job=job, budget=seconds, perturb=tuple(perturb or DEFAULT_PERTURB), plans=tuple(plans),
        allow=frozenset(allow), **options,
    )  # fmt: skip


def _plans(texts: list[str], file: Path | None) -> list[Plan]:
    from steersman.testing.explore import Plan, PlanError, read_plans

    try:
        found = [Plan.read(text) for text in texts]
        if file is not None:
            with file.open(encoding="utf-8") as lines:
                found += read_plans(lines)
    except PlanError as problem:
        raise LoadError(f"{file}: {problem}" if file is not None else str(problem)) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise LoadError(f"{file} cannot be read: {problem}") from None
    if file is not None and not found:
        raise LoadError(f"{file}: there is no plan; write one in a line, such as crash-after:W1")
    return found


def _save(file: Path, failures: list[Failure], target: str) -> None:
    from steersman.testing.explore.report import saved_plan

    try:
        with file.open("a", encoding="utf-8") as lines:
            lines.writelines(saved_plan(failure, target) for failure in failures)
    except OSError as problem:
        raise LoadError(f"--save: {file} cannot be written: {problem.strerror}", 1) from None


def _write_page(file: Path, failure: Failure, command: str) -> None:
    from steersman.testing.explore.page import page

    try:
        file.write_text(page(failure, _replay(failure, command)), encoding="utf-8")
    except OSError as problem:
        raise LoadError(f"--page: {file} cannot be written: {problem.strerror}", 1) from None


def _replay(failure: Failure, command: str) -> str:
    return f"{command} --plan '{failure.plan}'" if failure.plan.faults else command


def _print(result: Exploration, command: str, *, interrupted: bool) -> None:
    from steersman.testing.explore.report import coverage_text, failure_lines

    if interrupted:
        typer.echo("interrupted; the failures so far:")
    for failure in result.failures:
        typer.echo("\n".join(failure_lines(failure, _replay(failure, command))))
    if not result.failures and not interrupted:
        typer.echo("the operator survives all plans that were tried")
    typer.echo(coverage_text(result))


class Interruption:
    """Lets Ctrl-C end an exploration in two cases in which it has no effect by default. Use it as a context manager.

    The shell may have started this process with SIGINT ignored, and Python ignores a KeyboardInterrupt in finalizers
    and in callbacks of weak references.

    Args:
        progress: Called after each run.
    """

    def __init__(self, progress: Callable[[Exploration, float], None]) -> None:
        self._progress = progress
        self._requested = False

    def __enter__(self) -> Self:
        self._former = signal.signal(signal.SIGINT, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._former)

    def __call__(self, result: Exploration, share: float) -> None:
        """Show the progress, or raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self._requested:
            raise KeyboardInterrupt
        self._progress(result, share)

    def _request(self, *_: object) -> None:
        self._requested = True
        raise KeyboardInterrupt


class ProgressLine:
    """Shows the progress of an exploration in one line of a terminal.

    Args:
        shown: Whether the line is written at all; only a terminal can overwrite it.
        clock: Returns the time in seconds.
    """

    INTERVAL_SECONDS = 0.1
    BAR_COLUMNS = 24

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, shown: bool) -> None:
        self._shown = shown
        self._clock = clock
        self._began = clock()
        self._next = 0.0

    def __call__(self, result: Exploration, share: float) -> None:
        """Write the line again, at most ten times a second.

        Args:
            result: The exploration so far.
            share: The finished share of the plans or of the budget, whichever is greater.
        """
        now = self._clock()
        if self._shown and now >= self._next:
            self._next = now + self.INTERVAL_SECONDS
            sys.stderr.write(f"\r\x1b[2K{self.text(result, share)}")
            sys.stderr.flush()

    def text(self, result: Exploration, share: float) -> str:
        """Return the line: a bar, the runs, plans per second, the points and faults covered, and the failures."""
        filled = round(self.BAR_COLUMNS * share)
        bar = "#" * filled + "." * (self.BAR_COLUMNS - filled)
        rate = result.runs / max(self._clock() - self._began, 0.001)
        writes = sum(point.startswith("W") for point in result.covered)
        events = sum(point.startswith("E") for point in result.covered)
        trace = result.reference.trace if result.reference is not None else None
        known = f"{writes}/{len(trace.writes)} writes, {events}/{len(trace.events)} events" if trace else ""
        failures = f", {len(result.failures)} failed" if result.failures else ""
        return f"[{bar}] {share:4.0%} {result.runs} runs, {rate:.1f}/s, {known}{failures}"

    def clear(self) -> None:
        """Remove the line."""
        if self._shown and self._next:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
