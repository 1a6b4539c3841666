"""Options of the subresources of Pods: container, logs, commands and ports, with the API server's refusals.

Options come as query parameters and are read as the API server reads them: a switch is on unless it says "false" or
"0", a number that is none is a 400, and options that contradict each other are a 422 that names them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast

from steersman_cluster.api.interfaces import Call
from steersman_cluster.errors import (
    APIError,
    FieldError,
    bad_request,
    field_forbidden,
    field_invalid,
    invalid,
    not_found,
)
from steersman_cluster.kubelet import LogOptions
from steersman_cluster.objects import Object, dig

__all__ = [
    "ExecOptions",
    "container_of",
    "exec_options",
    "is_on",
    "items_of",
    "log_options",
    "pod_of",
    "ports_of",
]

_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_LAYOUT_PARTS: Final = ("2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05")
_ZONE: Final = re.compile(r"(\.\d+)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class ExecOptions:
    """The streams of `exec` and `attach`, and the command of `exec`."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    command: tuple[str, ...] = ()


def items_of(obj: Object, *names: str) -> list[Object]:
    """The list at the end of nested maps; empty where there is none."""
    return cast("list[Object]", dig(obj, *names, default=[]))


def pod_of(call: Call, name: str = "") -> Object:
    """The Pod of the path. Raises 404."""
    name = name or call.name
    found = call.reader.get("", "pods", call.namespace, name)
    if found is None:
        raise not_found("", "pods", name)
    return found


def container_of(call: Call, pod: Object) -> str:
    """Return the named container, or the only one without a name. Raises `APIError` (400)."""
    named = call.options.get("container", "")
    parts = ("initContainers", "containers", "ephemeralContainers")
    known = [str(container["name"]) for part in parts for container in items_of(pod, "spec", part)]
    if named:
        if named not in known:
            raise bad_request(f"container {named} is not valid for pod {call.name}")
        return named
    main = items_of(pod, "spec", "containers")
    if len(main) != 1:
        choice = " ".join(known)
        raise bad_request(f"a container name must be specified for pod {call.name}, choose one of: [{choice}]")
    return str(main[0]["name"])


def exec_options(call: Call) -> ExecOptions:
    """Read the options of `exec` and `attach`; these cannot be wrong."""
    return ExecOptions(
        *(is_on(call, name) for name in ("stdin", "stdout", "stderr", "tty")),
        command=tuple(call.request.params.all("command")),
    )


def ports_of(call: Call, parameter: str = "ports") -> list[int]:
    """Return the ports of a port-forward over channels, from a query parameter. Raises `APIError` (400)."""
    ports: list[int] = []
    for text in call.request.params.all(parameter):
        for part in text.split(","):
            if not part.isdecimal():
                raise bad_request(f'cannot convert to []int32: strconv.ParseUint: parsing "{part}": invalid syntax')
            if int(part) > 0xFFFF:
                raise bad_request(f'cannot convert to []int32: strconv.ParseUint: parsing "{part}": value out of range')
            ports.append(int(part))
    return ports


def log_options(call: Call) -> LogOptions:
    """Read the options of `log`. Raises 400 and 422."""
    tail, limit, since = (_number(call, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    moment = call.options.get("sinceTime", "")
    options = LogOptions(
        follow=is_on(call, "follow"),
        previous=is_on(call, "previous"),
        timestamps=is_on(call, "timestamps"),
        since_seconds=since,
        since_time=_time(moment) if moment else None,
        tail_lines=tail,
        limit_bytes=limit,
    )
    problems: list[FieldError] = []
    if tail is not None and tail < 0:
        problems.append(field_invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        problems.append(field_invalid("limitBytes", limit, "must be greater than 0"))
    if since is not None and options.since_time is not None:
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        problems.append(field_forbidden("[]", text))
    elif since is not None and since < 1:
        problems.append(field_invalid("sinceSeconds", since, "must be greater than 0"))
    if "stream" in call.request.params:
        # One stream alone is an alpha feature, which servers have switched off.
        problems.append(field_forbidden("stream", "may not be specified"))
    if problems:
        raise invalid("", "PodLogOptions", call.name, problems)
    return options


def is_on(call: Call, name: str) -> bool:
    """Return whether a switch of the query is on."""
    values = call.request.params.all(name)
    return bool(values) and values[0].lower() not in ("false", "0")


def _number(call: Call, name: str) -> int | None:
    text = call.options.get(name)
    if text is None:
        return None
    if re.fullmatch(r"[+-]?[0-9]+", text) is None:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if not -(2**63) <= int(text) < 2**63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def _time(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time. Raises 400 with the text of Go's parser."""
    rest = text
    for piece in _LAYOUT_PARTS:
        fits = rest.startswith(piece) if not piece.isdecimal() else re.match(rf"[0-9]{{{len(piece)}}}", rest)
        if not fits:
            raise _no_time(text, rest, piece)
        rest = rest[len(piece) :]
    if _ZONE.fullmatch(rest) is None:
        raise _no_time(text, rest, "Z07:00")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise bad_request(f'parsing time "{text}": out of range') from None


def _no_time(text: str, rest: str, piece: str) -> APIError:
    return bad_request(f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{rest}" as "{piece}"')
