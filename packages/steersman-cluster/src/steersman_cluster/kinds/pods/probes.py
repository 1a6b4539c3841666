"""Validation of probes and lifecycle hooks."""

from __future__ import annotations

from typing import Any

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, required
from steersman_cluster.json_access import get_list
from steersman_cluster.kinds import formats
from steersman_cluster.kinds import names as check
from steersman_cluster.objects import Object, Path

__all__ = ["lifecycle_errors", "probes_errors"]

_SECONDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def probes_errors(found: list[FieldError], container: Object, grace: int | None, path: Path) -> None:
    """The three probes of a container."""
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(name)) is None:
            continue
        at = path / name
        _handler(found, probe, grace, at)
        for field in _SECONDS:
            if (value := probe.get(field)) is not None and value < 0:
                found += check.non_negative(at / field, value)
        period = probe.get("terminationGracePeriodSeconds")
        if period is not None and period <= 0:
            found.append(field_invalid(at / "terminationGracePeriodSeconds", period, "must be greater than 0"))
        if name == "readinessProbe":
            if period is not None:
                text = "must not be set for readinessProbes"
                found.append(field_invalid(at / "terminationGracePeriodSeconds", period, text))
        elif probe.get("successThreshold") != 1:
            found.append(field_invalid(at / "successThreshold", probe.get("successThreshold") or 0, "must be 1"))


def lifecycle_errors(found: list[FieldError], lifecycle: Object, grace: int | None, path: Path) -> None:
    """Hooks after the start and before the stop."""
    for name in ("postStart", "preStop"):
        if (hook := lifecycle.get(name)) is not None:
            _handler(found, hook, grace, path / name)


def _handler(found: list[FieldError], handler: Object, grace: int | None, path: Path) -> None:
    first = True
    for kind in _HANDLERS:
        if (action := handler.get(kind)) is None:
            continue
        if first:
            _ACTIONS[kind](found, action, path / kind, grace)
        else:
            found.append(field_forbidden(path / kind, "may not specify more than 1 handler type"))
        first = False
    if first:
        found.append(required(path, "must specify a handler type"))


def _exec(found: list[FieldError], action: Object, path: Path, grace: int | None) -> None:
    if not action.get("command"):
        found.append(required(path / "command"))


def _http(found: list[FieldError], action: Object, path: Path, grace: int | None) -> None:
    if not action.get("path"):
        found.append(required(path / "path"))
    found += _port(path / "port", action.get("port", 0))
    found += check.enum(path / "scheme", action.get("scheme"), ("HTTP", "HTTPS"))
    for header in get_list(action, "httpHeaders"):
        found += check.check(formats.http_header_name, path / "httpHeaders", header.get("name") or "")


def _tcp(found: list[FieldError], action: Object, path: Path, grace: int | None) -> None:
    found += _port(path / "port", action.get("port", 0))


def _sleep(found: list[FieldError], action: Object, path: Path, grace: int | None) -> None:
    seconds = action.get("seconds") or 0
    if grace is not None and not 0 <= seconds <= grace:
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        found.append(field_invalid(path, seconds, text))


def _port(path: Path, port: int | str) -> list[FieldError]:
    return check.port_name(path, port) if isinstance(port, str) else check.port_number(path, port)


_ACTIONS: dict[str, Any] = {"exec": _exec, "httpGet": _http, "tcpSocket": _tcp, "grpc": _tcp, "sleep": _sleep}
