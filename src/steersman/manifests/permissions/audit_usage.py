"""Compares the requests of an operator, from the API server's audit log, with the permissions in its manifests.

It reports requests that no generated rule allows, refused or not, and rules that no request used. The input is
`audit.k8s.io/v1` Events as JSON lines, and EventLists. It never changes a role.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from steersman.manifests.permissions.grants import DEFAULT_GRANTS, Grant, Request

__all__ = [
    "AuditLogError",
    "Comparison",
    "Missing",
    "ObservedRequest",
    "compare_use",
    "observed_requests",
    "read_events",
]

_ANSWERED: Final = ("ResponseStarted", "ResponseComplete", "Panic")
_UNSEEN_VERBS: Final = frozenset({"approve", "bind", "escalate", "sign", "use"})
"""Verbs that the API server checks during other requests; no request has them itself."""
_FORBIDDEN: Final = 403
_CREATED: Final = 201


class AuditLogError(ValueError):
    """A line is not an audit event; the message names the line."""


@dataclass(frozen=True, slots=True)
class ObservedRequest:
    """One completed request of a user; `allowed` is whether authorization and admission allowed it."""

    user: str
    request: Request
    allowed: bool
    also: tuple[Request, ...] = ()
    """Additional permissions of the request: create, if a patch created the object; impersonate."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A permission that was needed and is not declared; `names` are at most ten of the objects."""

    request: Request
    requests: int
    refused: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison. `unseen` are permissions whose use is not visible in an audit log."""

    requests: int
    missing: tuple[Missing, ...] = ()
    unused: tuple[Grant, ...] = ()
    unseen: tuple[Grant, ...] = ()
    users: tuple[str, ...] = ()


def read_events(lines: Iterable[str], source: str = "audit log") -> Iterator[Mapping[str, Any]]:
    """Yield the events of a log in order, without an incomplete last line. Raises `AuditLogError`."""
    held: tuple[int, str] | None = None
    for number, line in enumerate(lines, 1):
        if held is not None:
            yield from _events(held[1], f"{source}:{held[0]}")
        held = (number, line) if line.strip() else None
    if held is None:
        return
    try:
        yield from _events(held[1], f"{source}:{held[0]}")
    except AuditLogError:
        if held[1].endswith("\n") or held[0] == 1:
            raise


def _events(line: str, place: str) -> Iterator[Mapping[str, Any]]:
    try:
        found: Any = json.loads(line)
    except ValueError:
        raise AuditLogError(f"{place}: not JSON; an audit log has one audit.k8s.io/v1 Event a line") from None
    if not isinstance(found, dict) or not str(cast("dict[str, Any]", found).get("apiVersion", "")).startswith("audit."):
        raise AuditLogError(f"{place}: not an audit.k8s.io/v1 Event")
    event = cast("dict[str, Any]", found)
    if event.get("kind") == "EventList":
        yield from event.get("items") or ()
    else:
        yield event


def observed_requests(events: Iterable[Mapping[str, Any]], mine: Callable[[str], bool]) -> Iterator[ObservedRequest]:
    """Yield each completed request of the users that `mine` selects, once; an impersonated user is the acting user."""
    reported: set[str] = set()
    for event in events:
        if event.get("stage") not in _ANSWERED:
            continue
        sender = str(_part(event, "user").get("username", ""))
        acting = str(_part(event, "impersonatedUser").get("username", "")) or sender
        chosen = [user for user in dict.fromkeys((acting, sender)) if mine(user)]
        if not chosen or (audit_id := str(event.get("auditID", ""))) in reported:
            continue  # a watch has an event at its start and one at its end
        reported.add(audit_id)
        user = chosen[0]
        if user != acting:
            yield ObservedRequest(user, _impersonation(acting), allowed=True)
            continue
        request = _request(event)
        code = int(_part(event, "responseStatus").get("code", 0))
        message = str(_part(event, "responseStatus").get("message", ""))
        yield ObservedRequest(user, request, _allowed(event, code), _additional_permissions(request, code, message))


def _part(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] | None = event.get(name)
    return found or {}


def _impersonation(user: str) -> Request:
    words = user.split(":")
    if words[:2] == ["system", "serviceaccount"] and len(words) == 4:
        return Request("impersonate", resource="serviceaccounts", namespace=words[2], name=words[3])
    return Request("impersonate", resource="users", name=user)


def _request(event: Mapping[str, Any]) -> Request:
    verb = str(event.get("verb", ""))
    ref: Mapping[str, Any] | None = event.get("objectRef")
    if not ref or not ref.get("resource"):
        return Request(verb, path=str(event.get("requestURI", "")).partition("?")[0])
    resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
    return Request(verb, ref.get("apiGroup", ""), resource, ref.get("namespace", ""), ref.get("name", ""))


def _allowed(event: Mapping[str, Any], code: int) -> bool:
    decision: str | None = _part(event, "annotations").get("authorization.k8s.io/decision")
    return code != _FORBIDDEN and decision != "forbid"


def _additional_permissions(request: Request, code: int, message: str) -> tuple[Request, ...]:
    """Return the `create` permission that a patch or update needs if it creates the object."""
    creates = code == _CREATED or (code == _FORBIDDEN and "cannot create resource" in message)
    if request.verb not in ("patch", "update") or not creates or "/" in request.resource:
        return ()
    return (Request("create", request.group, request.resource, request.namespace, request.name),)


def compare_use(seen: Iterable[ObservedRequest], grants: Sequence[Grant]) -> Comparison:
    """Return missing and unused permissions, sorted and without duplicates."""
    used: set[Grant] = set()
    by_verb: dict[str, list[Grant]] = {}
    for grant in grants:
        by_verb.setdefault(grant.verb, []).append(grant)
    known: dict[Request, tuple[Grant, ...]] = {}
    needed: Counter[Request] = Counter()
    refused: Counter[Request] = Counter()
    names: dict[Request, set[str]] = {}
    users: set[str] = set()
    total = 0
    for one in seen:
        total += 1
        users.add(one.user)
        for request in (one.request, *one.also):
            matching = known.get(request)
            if matching is None:
                candidates = (*by_verb.get(request.verb, ()), *by_verb.get("*", ()))
                matching = known[request] = tuple(g for g in candidates if g.allows(request))
            used.update(matching)
            if not matching and not any(g.allows(request) for g in DEFAULT_GRANTS):
                plain = Request(request.verb, request.group, request.resource, request.namespace, path=request.path)
                needed[plain] += 1
                refused[plain] += not one.allowed
                names.setdefault(plain, set()).add(request.name)
    missing = tuple(
        Missing(r, count, refused[r], tuple(sorted(filter(None, names[r])))[:10]) for r, count in sorted(needed.items())
    )
    idle = [g for g in grants if g not in used]
    unseen = tuple(g for g in idle if _is_unobservable(g))
    return Comparison(total, missing, tuple(g for g in idle if g not in unseen), unseen, tuple(sorted(users)))


def _is_unobservable(grant: Grant) -> bool:
    """Return whether admission checks the permission during other requests: finalizers of owners, classes, policies."""
    return grant.verb in _UNSEEN_VERBS or grant.resource.endswith("/finalizers")
