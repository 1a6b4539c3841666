"""The audit log of a test as calls, counts and assertions.

Reads the log of embedded and real control planes. It contains every call that has a response. Assertions compare calls
only, and their errors show the calls of the test.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from steersman.testing.controlplane.audit import WRITES, AuditEvent, UnsupportedError, read_audit_log

__all__ = ["Audit", "call_of"]


class Audit:
    """The calls since the test began. `user` is the user of a call; the handle of an operator has `user`."""

    def __init__(self, log: Callable[[], Path]) -> None:
        self._log = log
        self._since = 0
        """The size of the log in bytes when the test began."""

    def begin(self) -> None:
        """Ignore the calls so far."""
        self._since = self._size()

    def calls(
        self,
        *,
        user: str | None = None,
        verbs: Sequence[str] | None = None,
        resource: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        code: int | None = None,
    ) -> list[AuditEvent]:
        """Return calls with a response, in order. `pods/status` selects a subresource, `pods` includes all of them.

        Raises `UnsupportedError` on a cluster without a readable log.
        """
        plural, _, subresource = (resource or "").partition("/")
        return [
            e
            for e in read_audit_log(self._log(), since=self._since)
            if (user is None or (e.impersonated or e.user) == user)
            and (verbs is None or e.verb in verbs)
            and (not plural or e.resource == plural)
            and (not subresource or e.subresource == subresource)
            and (namespace is None or e.namespace == namespace)
            and (name is None or e.name == name)
            and (code is None or e.code == code)
        ]

    def writes(self, **which: Any) -> list[AuditEvent]:
        """Return calls that may change an object; the arguments are those of `calls`."""
        words: dict[str, Any] = {"verbs": WRITES, **which}
        return self.calls(**words)

    def assert_calls(self, expected: Sequence[str], **which: Any) -> None:
        """Fail unless the calls are these, in this order: `["create configmaps/web", "patch apps/web/status"]`."""
        found = [call_of(event) for event in self.calls(**which)]
        assert found == list(expected), _difference_text("calls", list(expected), found)

    def assert_writes(self, expected: Sequence[str], **which: Any) -> None:
        """Fail unless the writes are these, in this order; see `assert_calls`."""
        self.assert_calls(expected, **{"verbs": WRITES, **which})

    def assert_no_writes(self, **which: Any) -> None:
        """Fail if there were writes, and list them."""
        self.assert_writes([], **which)

    def assert_at_most(self, limit: int, **which: Any) -> None:
        """Fail if there were more calls than `limit`; the error counts equal calls."""
        found = Counter(call_of(event) for event in self.calls(**which))
        counted = "\n".join(f"  {n:5} x {call}" for call, n in found.most_common(20))
        assert found.total() <= limit, f"{found.total()} calls, at most {limit} are allowed:\n{counted}"

    def refused(self, user: str) -> list[str]:
        """Return requests that lacked a permission, once each: `patch deployments.apps/scale in team-a`."""
        return sorted({_permission(event) for event in self.calls(user=user, code=403) if _is_rbac_denial(event)})

    def _size(self) -> int:
        try:
            return self._log().stat().st_size
        except (UnsupportedError, FileNotFoundError):
            return 0


def call_of(event: AuditEvent) -> str:
    """Return one call as a short line: `patch deployments/web/status`, `list pods`."""
    if not event.resource:
        return f"{event.verb} {event.uri.partition('?')[0]}"
    return f"{event.verb} " + "/".join(filter(None, (event.resource, event.name, event.subresource)))


def _is_rbac_denial(event: AuditEvent) -> bool:
    """Return whether RBAC denied the request, not admission (a quota, a terminating namespace)."""
    annotations: dict[str, Any] = event.raw.get("annotations") or {}
    decision = annotations.get("authorization.k8s.io/decision")
    return decision in (None, "forbid")


def _permission(event: AuditEvent) -> str:
    if not event.resource:
        return f"{event.verb} {event.uri.partition('?')[0]}"
    resource = ".".join(filter(None, (event.resource, event.group)))
    resource = "/".join(filter(None, (resource, event.subresource)))
    return f"{event.verb} {resource}" + (f" in {event.namespace}" if event.namespace else " (in all namespaces)")


def _difference_text(what: str, expected: list[str], found: list[str]) -> str:
    import difflib

    lines = difflib.unified_diff(expected, found, f"expected {what}", "found", "", "", 3, "")
    return f"other {what} than expected:\n" + "\n".join(lines) + f"\nall: {json.dumps(found[:50])}"
