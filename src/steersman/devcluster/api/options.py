"""Query parameters as the API server reads them, with its refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from steersman.devcluster.api.messages import Params
from steersman.devcluster.errors import APIError, bad_request, field_forbidden, field_invalid, invalid, not_supported
from steersman.devcluster.objects import Object
from steersman.devcluster.api.fieldselectors import FieldSelector, parse_fields
from steersman.models.selectors import Selector, SelectorError, parse_labels

__all__ = ["DeleteOptions", "ListOptions", "WriteOptions", "delete_options", "list_options", "truth", "write_options"]

_VALIDATIONS: Final = ("Ignore", "Warn", "Strict")
_POLICIES: Final = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a list or a watch asks for."""

    labels: Selector | None = None
    fields: FieldSelector | None = None
    limit: int = 0
    continue_: str = ""
    version: str = ""
    match: str = ""
    timeout: int | None = None
    bookmarks: bool = False
    initial: bool | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a create, update or patch asks for."""

    dry_run: bool = False
    manager: str = ""
    validation: str = "Warn"
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What a delete asks for."""

    dry_run: bool = False
    grace: int | None = None
    policy: str = ""
    uid: str | None = None
    version: str | None = None


def truth(text: str) -> bool:
    """A boolean parameter: present and neither "false" nor "0"."""
    return text.lower() not in ("false", "0")


def _flag(params: Params, name: str) -> bool:
    return name in params and truth(params.get(name))


def _number(params: Params, name: str) -> int | None:
    text = params.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def list_options(params: Params, *, watch: bool = False) -> ListOptions:  # noqa: C901 - one check a parameter
    """Read what a list or watch asks for. Raises `APIError`."""
    if not params:
        return ListOptions()
    try:
        labels = parse_labels(params.get("labelSelector")) if params.get("labelSelector") else None
    except SelectorError as problem:
        raise bad_request(f"unable to parse requirement: {problem}") from None
    fields = parse_fields(params.get("fieldSelector")) if params.get("fieldSelector") else None
    version, match, token = params.get("resourceVersion"), params.get("resourceVersionMatch"), params.get("continue")
    initial = _flag(params, "sendInitialEvents") if params.get("sendInitialEvents") else None
    bookmarks = _flag(params, "allowWatchBookmarks")
    limit = _number(params, "limit") or 0
    problems: list[Any] = []
    if watch and initial is not None:
        if match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            problems.append(field_forbidden("resourceVersionMatch", text))
    elif watch and match:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        problems.append(field_forbidden("resourceVersionMatch", text))
    if not watch:
        if initial is not None:
            problems.append(field_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
        if match and not version:
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            problems.append(field_forbidden("resourceVersionMatch", text))
        if match and token:
            text = "resourceVersionMatch is forbidden when continue is provided"
            problems.append(field_forbidden("resourceVersionMatch", text))
        if match and match not in ("Exact", "NotOlderThan"):
            problems.append(not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
        elif match == "Exact" and version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            problems.append(field_forbidden("resourceVersionMatch", text))
    if problems:
        raise invalid("meta.k8s.io", "ListOptions", "", problems)
    if version and not version.isdecimal():
        error = field_invalid("resourceVersion", version, f'strconv.ParseUint: parsing "{version}": invalid syntax')
        raise bad_request(error.message)
    timeout = _number(params, "timeoutSeconds")
    return ListOptions(labels, fields, limit, token, version, match, timeout, bookmarks, initial)


def _dry_run(values: list[str], kind: str) -> bool:
    bad = [value for value in values if value != "All"]
    if bad:
        error = not_supported("dryRun", values, ("All",))
        raise invalid("meta.k8s.io", kind, "", [error])
    return bool(values)


def write_options(params: Params, agent: str, kind: str, *, apply: bool = False) -> WriteOptions:
    """Read what a write asks for; `kind` names the options in refusals. Raises `APIError`."""
    if not params:
        if apply:
            raise _no_manager(kind)
        return WriteOptions(manager=agent)
    dry_run = _dry_run(params.all("dryRun"), kind)
    validation = params.get("fieldValidation") or "Warn"
    problems: list[Any] = []
    if validation not in _VALIDATIONS:
        problems.append(not_supported("fieldValidation", validation, ("", *_VALIDATIONS)))
    manager = params.get("fieldManager")
    if len(manager) > 128:
        from steersman.devcluster.errors import ErrorType, FieldError

        text = "may not be more than 128 bytes"
        problems.append(FieldError(ErrorType.TOO_LONG, "fieldManager", manager, text))
    if any(not character.isprintable() for character in manager):
        text = "should only contain printable characters"
        problems.append(field_invalid("fieldManager", manager, text))
    force = _flag(params, "force")
    if kind == "PatchOptions" and force and not apply:
        problems.append(field_forbidden("force", "may not be specified for non-apply patch"))
    if problems:
        raise invalid("meta.k8s.io", kind, "", problems)
    if apply and not manager:
        raise _no_manager(kind)
    return WriteOptions(dry_run, manager or agent, validation, force)


def _no_manager(kind: str) -> APIError:
    from steersman.devcluster.errors import required

    return invalid("meta.k8s.io", kind, "", [required("fieldManager", "is required for apply patch")])


def delete_options(params: Params, body: Object | None) -> DeleteOptions:
    """Read what a delete asks for, from its body where it has one, else from the query. Raises `APIError`."""
    if body:
        grace = body.get("gracePeriodSeconds")
        policy = str(body.get("propagationPolicy") or "")
        orphan = body.get("orphanDependents")
        dry = cast("list[str]", body.get("dryRun") or [])
        conditions = cast(Object, body.get("preconditions") or {})
    else:
        if not params:
            return DeleteOptions()
        grace = _number(params, "gracePeriodSeconds")
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
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    if grace is not None and not isinstance(grace, int):
        raise bad_request("gracePeriodSeconds must be an integer")
    return DeleteOptions(
        _dry_run(list(dry), "DeleteOptions"), grace, policy, conditions.get("uid"), conditions.get("resourceVersion")
    )
