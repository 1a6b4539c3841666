"""/healthz, /livez and /readyz: named checks, answered from a thread that does not depend on the event loop.

Liveness asks whether the loop moves, as a watchdog outside of it sees. Readiness asks whether this replica does its
work: caches in step, or standing by. `?verbose` lists every check; `?exclude=name` leaves one out, as Kubernetes'
own servers do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from steersman.operator.http_server import Answer, Route, Visit

__all__ = ["Check", "Health", "loop_moves"]

Check = Callable[[], str | None]
"""Returns `None` for success, else the problem in a few words. Called from another thread; must not block."""


@dataclass(slots=True)
class Health:
    """The live and ready checks of a process, by name."""

    live: dict[str, Check] = field(default_factory=dict[str, Check])
    ready: dict[str, Check] = field(default_factory=dict[str, Check])

    def routes(self) -> dict[str, Route]:
        """Return the routes of the probe server."""
        return {
            "/healthz": lambda visit: _report("healthz", self.live, visit),
            "/livez": lambda visit: _report("livez", self.live, visit),
            "/readyz": lambda visit: _report("readyz", self.ready, visit),
        }


def _report(name: str, checks: dict[str, Check], visit: Visit) -> Answer:
    query = parse_qs(visit.query, keep_blank_values=True)
    excluded = set(query.get("exclude", ()))
    lines: list[str] = []
    failed = False
    for check_name, check in list(checks.items()):
        if check_name in excluded:
            lines.append(f"[+]{check_name} excluded: ok")
            continue
        problem = _run_check(check)
        failed = failed or problem is not None
        lines.append(f"[+]{check_name} ok" if problem is None else f"[-]{check_name} failed: {problem}")
    if not failed and "verbose" not in query:
        return Answer(200, b"ok")
    lines.append(f"{name} check {'failed' if failed else 'passed'}")
    return Answer(500 if failed else 200, ("\n".join(lines) + "\n").encode())


def _run_check(check: Check) -> str | None:
    try:
        return check()
    except Exception as problem:  # noqa: BLE001 - a broken check is a failed one
        return f"the check itself failed: {type(problem).__name__}: {problem}"


def loop_moves(stalled_for: Callable[[], float], limit: float) -> Check:
    """Return a liveness check that fails when the event loop has been blocked for `limit` seconds (R6)."""

    def check() -> str | None:
        stalled = stalled_for()
        return f"the event loop has not moved for {stalled:.1f} s" if stalled > limit else None

    return check
