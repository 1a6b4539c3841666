"""Query parameters as the API server reads them, with its refusals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from steersman.models.selectors import Selector
from steersman_cluster.api.requests.field_selectors import FieldSelector, parse_fields
from steersman_cluster.api.requests.label_selectors import parse_selector
from steersman_cluster.api.requests.messages import Params, Request
from steersman_cluster.cel.gotext import go_quote
from steersman_cluster.errors import (
    APIError,
    ErrorType,
    FieldError,
    bad_request,
    field_forbidden,
    field_invalid,
    invalid,
    not_supported,
    required,
)
from steersman_cluster.objects import Object

__all__ = [
    "DeleteOptions",
    "ListOptions",
    "WriteOptions",
    "agent_of",
    "delete_options",
    "list_options",
    "number_of",
    "truth",
    "write_options",
]

_VALIDATIONS: Final = ("Ignore", "Warn", "Strict")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_POLICIES: Final = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The parsed query of a list or watch: selectors, paging, resourceVersion, timeout."""

    labels: Selector | None = None
    fields: FieldSelector | None = None
    limit: int = 0
    continue_: str = ""
    version: str = ""
    match: str = ""
    timeout: int | None = None
    bookmarks: bool = False
    initial: bool | None = None
    as_of: int | None = None
    """The revision of the watch cache; `None` is the latest."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a create, update or patch."""

    dry_run: bool = False
    manager: str = ""
    """The field manager: `fieldManager`, or the user agent."""
    validation: str = "Warn"
    force: bool = False
    asked_manager: str = ""
    asked_validation: str = ""

    def shown(self, kind: str) -> Object:
        """Return the options for webhooks: only those that the client sent."""
        options: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        if self.asked_manager:
            options["fieldManager"] = self.asked_manager
        if self.asked_validation:
            options["fieldValidation"] = self.asked_validation
        return options


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The parsed options of a delete: grace period, propagation policy, preconditions, dry run."""

    dry_run: bool = False
    grace: int | None = None
    policy: str = ""
    orphan: bool | None = None
    """The older form of the policy."""
    uid: str | None = None
    version: str | None = None

    def shown(self) -> Object:
        """The options as webhooks see them."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if self.grace is not None:
            options["gracePeriodSeconds"] = self.grace
        if self.uid is not None or self.version is not None:
            pairs = (("uid", self.uid), ("resourceVersion", self.version))
            options["preconditions"] = {name: value for name, value in pairs if value is not None}
        if self.orphan is not None:
            options["orphanDependents"] = self.orphan
        if self.policy:
            options["propagationPolicy"] = self.policy
        if self.dry_run:
            options["dryRun"] = ["All"]
        return options


def truth(text: str) -> bool:
    """A boolean parameter: present and neither "false" nor "0"."""
    return text.lower() not in ("false", "0")


def _flag(params: Params, name: str) -> bool:
    return name in params and truth(params.get(name))


def number_of(params: Params, name: str) -> int | None:
    """Return an integer parameter, `None` if absent. Raises `APIError` (400) with Go's text if invalid."""
    if name not in params:
        return None
    text = params.get(name)
    if _INTEGER.fullmatch(text) is None:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def list_options(params: Params, *, watch: bool = False) -> ListOptions:
    """Parse the options of a list or watch. Raises `APIError`."""
    if not params:
        return ListOptions()
    labels = parse_selector(params.get("labelSelector")) if params.get("labelSelector") else None
    fields = parse_fields(params.get("fieldSelector")) if params.get("fieldSelector") else None
    version, match, token = params.get("resourceVersion"), params.get("resourceVersionMatch"), params.get("continue")
    initial = _flag(params, "sendInitialEvents") if params.get("sendInitialEvents") else None
    bookmarks = _flag(params, "allowWatchBookmarks")
    limit = number_of(params, "limit") or 0
    check = _watch_problems if watch else _list_problems
    problems = check(version, match, token, initial=initial)
    if problems:
        raise invalid("meta.k8s.io", "ListOptions", "", problems)
    if version and (len(version) > 19 or not (version.isascii() and version.isdecimal())):
        error = field_invalid("resourceVersion", version, f'strconv.ParseUint: parsing "{version}": invalid syntax')
        raise bad_request(f"invalid resource version: {error.message}")
    timeout = number_of(params, "timeoutSeconds")
    return ListOptions(labels, fields, limit, token, version, match, timeout, bookmarks, initial)


def _watch_problems(version: str, match: str, token: str, *, initial: bool | None) -> list[FieldError]:
    found: list[FieldError] = []
    path = "resourceVersionMatch"
    if initial is not None and match != "NotOlderThan":
        found.append(field_forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if match:
        if initial is None:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            found.append(field_forbidden(path, text))
        if match != "NotOlderThan":
            found.append(not_supported(path, match, ("NotOlderThan",)))
    if token and (match or (initial is None and version in ("", "0"))):
        # A watch from the present is one of initial events, and therefore of a match, without saying so.
        found.append(field_forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    return found


def _list_problems(version: str, match: str, token: str, *, initial: bool | None) -> list[FieldError]:
    found: list[FieldError] = []
    path = "resourceVersionMatch"
    if match:
        if not version:
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            found.append(field_forbidden(path, text))
        if token:
            found.append(field_forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            found.append(not_supported(path, match, ("Exact", "NotOlderThan", "")))
        elif match == "Exact" and version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            found.append(field_forbidden(path, text))
    if initial is not None:
        found.append(field_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return found


def _dry_run(values: list[str], kind: str) -> bool:
    bad = [value for value in values if value != "All"]
    if bad:
        error = not_supported("dryRun", values, ("All",))
        raise invalid("meta.k8s.io", kind, "", [error])
    return bool(values)


def write_options(params: Params, agent: str, kind: str, *, apply: bool = False) -> WriteOptions:
    """Parse the options of a write; `kind` names them in refusals. Raises `APIError`."""
    if not params:
        if apply:
            raise _no_manager(kind)
        return WriteOptions(manager=agent)
    dry_run = _dry_run(params.all("dryRun"), kind)
    validation = params.get("fieldValidation") or "Warn"
    problems: list[Any] = []
    if validation not in _VALIDATIONS:
        problems.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    manager = params.get("fieldManager")
    if len(manager) > 128:
        text = "may not be more than 128 bytes"
        problems.append(FieldError(ErrorType.TOO_LONG, "fieldManager", manager, text))
    bad = next((place for place, character in enumerate(manager) if not character.isprintable()), None)
    if bad is not None:
        text = f"invalid character U+{ord(manager[bad]):04X} (at position {len(manager[:bad].encode())})"
        problems.append(FieldError(ErrorType.INVALID, "fieldManager", manager, text, go_quote(manager)))
    force = _flag(params, "force")
    if kind == "PatchOptions" and "force" in params and not apply:
        problems.append(field_forbidden("force", "may not be specified for non-apply patch"))
    if problems:
        raise invalid("meta.k8s.io", kind, "", problems)
    if apply and not manager:
        raise _no_manager(kind)
    return WriteOptions(dry_run, manager or agent, validation, force, manager, params.get("fieldValidation"))


def _no_manager(kind: str) -> APIError:
    return invalid("meta.k8s.io", kind, "", [required("fieldManager", "is required for apply patch")])


def delete_options(params: Params, body: Object | None) -> DeleteOptions:
    """Parse the options of a delete from its body, or without a body from the query. Raises `APIError`."""
    if body:
        grace = body.get("gracePeriodSeconds")
        policy = str(body.get("propagationPolicy") or "")
        orphan = body.get("orphanDependents")
        dry = cast("list[str]", body.get("dryRun") or [])
        conditions = cast(Object, body.get("preconditions") or {})
    else:
        if not params:
            return DeleteOptions()
        grace = number_of(params, "gracePeriodSeconds")
        policy = params.get("propagationPolicy")
        orphan = _flag(params, "orphanDependents") if "orphanDependents" in params else None
        dry = params.all("dryRun")
        conditions = {}
    problems: list[Any] = []
    if orphan is not None and policy:
        text = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(field_invalid("propagationPolicy", policy, text))
    if policy and policy not in _POLICIES:
        problems.append(not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")))
    if problems:
        raise invalid("meta.k8s.io", "DeleteOptions", "", problems)
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise bad_request("gracePeriodSeconds must be an integer")
    return DeleteOptions(
        _dry_run(list(dry), "DeleteOptions"),
        grace,
        policy,
        orphan,
        conditions.get("uid"),
        conditions.get("resourceVersion"),
    )


def agent_of(request: Request) -> str:
    """Return the field manager of a write without `fieldManager`: the user agent up to its first slash."""
    return _manager_of(request.headers.get("User-Agent") or "")


@lru_cache(maxsize=256)
def _manager_of(agent: str) -> str:
    name = agent.partition("/")[0]
    return "".join(character for character in name if character.isprintable())[:128] or "unknown"
