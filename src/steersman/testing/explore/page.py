"""The HTML page of a failure: the reference and the failing run side by side, in one file without other resources.

`page.html` and `page.js` render the result of `page_data`. The script inserts all values as text, and the JSON in the
page contains no character that ends a script element. Values of Secrets are not on the page.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from steersman.testing.explore.exploration import Failure
from steersman.testing.explore.report import failure_lines, fault_text
from steersman.testing.explore.running import Outcome
from steersman.testing.explore.state import masked_name, normal_object
from steersman.testing.explore.trace import Commit, Trace

__all__ = ["page", "page_data"]

MAX_STATE_BYTES: Final = 4 << 20
"""Most bytes of all states on a page; later states of a run are omitted."""
MAX_STATE_CHARS: Final = 50_000
"""Most characters of one state; the rest is omitted."""
MAX_ITEMS: Final = 4_000
"""Most items of a run on a page; later items are omitted."""
MAX_TEXT_CHARS: Final = 2_000
"""Most characters of a finding, an error or another text."""
_ESCAPES: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_OMITTED_STATE: Final = "(this state is left out: the page would be too large)"
_DIRECTORY: Final = Path(__file__).parent


def page(failure: Failure, replay: str) -> str:
    """Return the page of a failure as HTML.

    Args:
        failure: The failure.
        replay: The command line that runs its plan again.
    """
    script = (_DIRECTORY / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(page_data(failure, replay), separators=(",", ":")).translate(_ESCAPES)
    parts = {
        "HASH": f"sha256-{digest}",
        "TITLE": html.escape(f"Plan {failure.plan}"),
        "TEXT": html.escape(_cut("\n".join(failure_lines(failure, replay)))),
        "DATA": data,
        "SCRIPT": script,
    }
    pieces = (_DIRECTORY / "page.html").read_text(encoding="utf-8").split("@@")
    return "".join(parts.get(piece, piece) if index % 2 else piece for index, piece in enumerate(pieces))


def page_data(failure: Failure, replay: str) -> dict[str, Any]:
    """Return the content of the page as JSON values.

    Args:
        failure: The failure.
        replay: The command line that runs its plan again.
    """
    states = _States()
    runs = [
        _run("reference", failure.reference, states),
        _run(str(failure.plan), failure.outcome, states),
    ]
    omitted = sum(max(0, len(run["items"]) - MAX_ITEMS) for run in runs)
    for run in runs:
        del run["items"][MAX_ITEMS:]
    return {
        "faults": [_cut(fault_text(fault, failure)) for fault in failure.plan.faults],
        "findings": [_cut(str(finding)) for finding in failure.findings[:20]],
        "replay": _cut(replay),
        "cursor": _cursor(failure),
        "omitted": f"{omitted} items and {states.omitted} states are left out, because the page would be too large."
        if omitted or states.omitted else "",
        "states": states.texts,
        "runs": runs,
    }  # fmt: skip


def _cursor(failure: Failure) -> float:
    """Return the time of the first finding, in seconds.

    Settled states are compared directly before the first run continues, because its next step may have the same time.
    """
    trace, reference = failure.outcome.trace, failure.reference.trace
    first = next((finding for finding in failure.findings if finding.at), None)
    if first is None:
        return max((mark.at - trace.began for mark in trace.marks), default=0.0)
    if first.oracle != "end-state":
        return first.at - trace.began
    settled = next((mark.text for mark in trace.marks if mark.at == first.at and mark.text.startswith("settled")), "")
    instants = [mark.at - one.began for one in (trace, reference) for mark in one.marks if mark.text == settled]
    return min(instants, default=0.0) - 0.0005


class _States:
    """The texts of states without duplicates, up to a total size."""

    def __init__(self) -> None:
        self.texts: list[str] = [_OMITTED_STATE]
        self.omitted = 0
        self._numbers: dict[str, int] = {}
        self._bytes = 0

    def number(self, commit: Commit, names: dict[str, str]) -> int:
        """Return the number of the state after a commit; -1 after a deletion."""
        if not commit.after:
            return -1
        normal = normal_object(msgspec.json.decode(commit.after), names, secret=commit.resource == "secrets")
        text = json.dumps(normal, indent=1, sort_keys=True)[:MAX_STATE_CHARS]
        if (known := self._numbers.get(text)) is not None:
            return known
        self._bytes += len(text)
        if self._bytes > MAX_STATE_BYTES:
            self.omitted += 1
            return 0
        self._numbers[text] = len(self.texts)
        self.texts.append(text)
        return len(self.texts) - 1


def _run(name: str, outcome: Outcome, states: _States) -> dict[str, Any]:
    trace = outcome.trace
    names = _generated(trace)
    items = sorted(_items(trace, names, states), key=lambda item: item["at"])
    processes = sorted({item["process"] for item in items if item["process"] > 0})
    return {"name": name, "processes": processes, "items": items}


def _items(trace: Trace, names: dict[str, str], states: _States) -> Iterator[dict[str, Any]]:
    began = trace.began

    def time(at: float) -> float:
        return round(at - began, 4)

    def place(*parts: str) -> str:
        return masked_name("/".join(part for part in parts if part), names)

    for reconcile in trace.reconciles:
        error = f" fails: {reconcile.error}" if reconcile.error else ""
        yield {
            "kind": "reconcile", "at": time(reconcile.began), "ended": time(reconcile.ended),
            "process": reconcile.process, "bad": bool(reconcile.error),
            "text": _cut(f"{reconcile.controller} reconciles {reconcile.key}{error}"),
        }  # fmt: skip
    for write in trace.writes:
        item = {
            "kind": "write", "at": time(write.at), "process": write.process,
            "label": f"W{write.number} {write.fault}".rstrip(), "bad": bool(write.fault),
            "object": place(write.resource, write.namespace, write.name),
            "text": _cut(f"W{write.number} {write.target}: {_ending(write.code, write.fault)}"),
        }  # fmt: skip
        yield item | ({"ended": time(write.ended)} if write.ended else {})
    for event in trace.events:
        yield {
            "kind": "event", "at": time(event.at), "process": event.process, "bad": bool(event.fate),
            "object": place(event.resource, event.namespace, event.name),
            "text": _cut(f"E{event.number} {event.type} of {event.resource} {event.name} {event.fate}".rstrip()),
        }  # fmt: skip
    for commit in trace.commits:
        yield {
            "kind": "commit", "at": time(commit.at), "process": commit.process, "name": commit.object,
            "object": place(commit.object), "state": states.number(commit, names),
            "text": _cut(f"{commit.type} {commit.object} by the {commit.by} (revision {commit.revision})"),
        }  # fmt: skip
    for mark in trace.marks:
        bad = mark.text.startswith(("crash", "paused", "ends"))
        yield {
            "kind": "fault" if bad else "mark", "bad": bad, "at": time(mark.at), "process": mark.process,
            "label": _cut(mark.text), "text": _cut(mark.text),
        }  # fmt: skip


def _ending(code: int, fault: str) -> str:
    response = f"status {code}" if code else "no response"
    return f"{response}, {fault}" if fault else response


def _generated(trace: Trace) -> dict[str, str]:
    """Return the generated names of a run, each with its replacement."""
    found: dict[str, str] = {}
    for commit in trace.commits:
        metadata: dict[str, Any] = msgspec.json.decode(commit.after)["metadata"] if commit.type == "ADDED" else {}
        prefix = metadata.get("generateName")
        if prefix and commit.name.startswith(prefix):
            found[commit.name] = f"{prefix}*"
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"
