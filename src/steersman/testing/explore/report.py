"""Texts about an exploration: a failure with its smallest plan, and the coverage."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from steersman.testing.explore.exploration import Exploration, Failure
from steersman.testing.explore.plans import Fault

__all__ = ["coverage_text", "failure_lines", "failure_text", "fault_text", "replay_command", "saved_plan"]

_TEXTS = {
    "crash-before": "the operator crashes before {write} is sent, and starts again",
    "crash-after": "the operator crashes after {write} is stored, and starts again",
    "lose-answer": "{write} is stored, and its response is lost",
    "conflict": "{write} fails with a conflict",
    "pause": "the process of the operator pauses for a minute after {write}",
    "past": "the operator crashes after {write}, and the next process sees the state after {until}",
    "hold": "{event} and later events of its resource arrive late",
    "miss": "{event} and later events of its resource are missed, and the watch expires",
    "absent": "the operator is down from the end of step {number} until the next one is settled",
}


def fault_text(fault: Fault, failure: Failure) -> str:
    """Return one sentence that describes a fault in a run."""
    trace = failure.outcome.trace
    number = int(fault.at[1:])
    values = {"write": fault.at, "event": fault.at, "until": fault.until, "number": str(number)}
    if fault.at.startswith("W") and number <= len(trace.writes):
        values["write"] = f"`{trace.writes[number - 1].target}` ({fault.at})"
    if fault.at.startswith("E") and number <= len(trace.events):
        event = trace.events[number - 1]
        values["event"] = f"{event.type} of {event.resource} {event.name} ({fault.at})"
    if fault.until.startswith("W") and int(fault.until[1:]) <= len(trace.writes):
        values["until"] = f"`{trace.writes[int(fault.until[1:]) - 1].target}` ({fault.until})"
    text = _TEXTS[fault.kind].format(**values)
    if fault.until.startswith("S"):
        text += f", until step {fault.until[1:]} is settled"
    return text


def failure_text(result: Exploration, test: str, *, page: Path | None = None) -> str:
    """Return the message of a test that found a failure.

    Args:
        result: The exploration.
        test: The id of the test, for the command that replays the plan.
        page: The HTML page of the first failure.
    """
    lines: list[str] = []
    for failure in result.failures:
        lines += failure_lines(failure, replay_command(failure, test))
    if page is not None:
        lines.append(f"picture: {page.as_uri()}")
    lines.append(coverage_text(result))
    return "\n".join(lines)


def failure_lines(failure: Failure, replay: str) -> list[str]:
    """Return the faults of a failure, its findings, and the command that runs it again.

    Args:
        failure: The failure.
        replay: A command line.
    """
    if failure.plan.faults:
        lines = [f"the operator does not survive the plan {failure.plan}"]
        lines += [f"  {fault_text(fault, failure)}" for fault in failure.plan.faults]
    else:
        lines = ["the operator fails in the reference run, in which nothing goes wrong"]
    lines += [f"  finding: {finding}" for finding in failure.findings[:10]]
    return [*lines, f"  replay:  {replay}"]


def replay_command(failure: Failure, test: str) -> str:
    """Return the command line that runs the plan of a failure again with pytest.

    Args:
        failure: The failure.
        test: The id of the test.
    """
    return f"STEERSMAN_EXPLORE_PLAN='{failure.plan}' pytest '{test}'"


def saved_plan(failure: Failure, operator: str) -> str:
    """Return a failure as a line for a file of plans, preceded by a comment.

    Args:
        failure: The failure.
        operator: The name of the operator, for the comment.
    """
    finding = " ".join(str(failure.findings[0]).split())[:200] if failure.findings else ""
    return f"# {operator}, seed {failure.seed}: {finding}\n{failure.plan}\n"


def coverage_text(result: Exploration) -> str:
    """Return a summary of the runs, and of the omitted plans with reasons."""
    reasons = Counter(
        "equal to another plan" if p.reason.startswith(("equal", "the same")) else p.reason for p in result.pruned
    )
    tried = ", ".join(f"{n} {kind}" for kind, n in sorted(result.tried.items())) or "none"
    per_run = 1000 * result.cpu / result.runs if result.runs else 0.0
    lines = [f"{result.runs} runs in {result.seconds:.1f} s, {per_run:.0f} ms of CPU each; tried: {tried}"]
    if result.converged:
        lines.append(f"{result.converged} runs ended early, in a state of the reference")
    if reasons:
        lines.append("pruned: " + ", ".join(f"{n} ({reason})" for reason, n in sorted(reasons.items())))
    if result.left:
        lines.append(f"the budget or the first failure left out {result.left} plans")
    return "\n".join(lines)
