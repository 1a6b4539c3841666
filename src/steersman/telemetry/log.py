"""Structured logs: JSON in a cluster, colour on a terminal, one reconcile id across all lines of a reconcile.

Context (kind, namespace, name, reconcile id) travels in context variables, so that a line logged deep inside a
library call of a reconcile carries it too. Nothing here decides what is worth logging.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, Protocol, TextIO, cast

from steersman.telemetry import early
from steersman.telemetry.plain_structlog import structlog

__all__ = ["CONTEXT", "Logger", "bind", "configure", "get_logger", "hide_local_variables", "merge_context", "unbind"]

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


CONTEXT: ContextVar[Callable[[], Mapping[str, Any]] | None] = ContextVar("steersman_log_context", default=None)
"""What to ask for values when a line is really written: for loops that change their values more often than they log."""


class Logger(Protocol):
    """What a logger can do: a short event and key-value pairs."""

    def debug(self, event: str, **values: Any) -> None: ...
    def info(self, event: str, **values: Any) -> None: ...
    def warning(self, event: str, **values: Any) -> None: ...
    def error(self, event: str, **values: Any) -> None: ...
    def exception(self, event: str, **values: Any) -> None: ...


def get_logger(name: str) -> Logger:
    """The logger of a module or package; cheap to call, cheap when its level is off."""
    hide_local_variables()
    return cast(Logger, structlog.get_logger(component=name))


def bind(**values: Any) -> Mapping[str, Any]:
    """Add values to every line logged in this context; returns the tokens for `unbind`."""
    return structlog.contextvars.bind_contextvars(**values)


def unbind(tokens: Mapping[str, Any]) -> None:
    """Take back what `bind` added."""
    structlog.contextvars.reset_contextvars(**tokens)


def merge_context(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: adds what `CONTEXT` says; what the line says itself goes first.

    `configure` installs it. Whoever configures structlog otherwise puts it behind `merge_contextvars`.
    """
    ask = CONTEXT.get()
    return event if ask is None else {**ask(), **event}


def configure(*, level: str = "info", format: str = "auto", stream: TextIO | None = None) -> None:
    """Set up logging for the process.

    `level` is debug, info, warning or error; `format` is "json", "console" or "auto" (console on a terminal). The
    standard library's records at warning and above join the same stream. Raises `ValueError` for other words.
    """
    if level not in _LEVELS:
        raise ValueError(f"log level {level!r}: use one of {', '.join(_LEVELS)}")
    if format not in ("auto", "json", "console"):
        raise ValueError(f"log format {format!r}: use auto, json or console")
    out = stream or sys.stderr
    console = format == "console" or (format == "auto" and out.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        merge_context,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    final: list[Any] = (
        # Plain tracebacks: pretty ones show the values of local variables, and with them Secrets and tokens.
        [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    )
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(_LEVELS[level], logging.WARNING))


def hide_local_variables() -> None:
    """Keep the values of local variables out of tracebacks where the program has not configured structlog.

    The default of structlog shows them when rich is installed, and with them Secrets and tokens.
    """
    if structlog.is_configured():
        return
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    processors = structlog.get_config()["processors"]
    structlog.configure(processors=[plain if isinstance(p, structlog.dev.ConsoleRenderer) else p for p in processors])


if early.level is not None:
    configure(level=early.level, format="console")
