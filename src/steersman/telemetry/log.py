"""Structured logs: JSON in a cluster, colour on a terminal, and one reconcile ID in all lines of a reconcile.

The context (kind, namespace, name, reconcile ID) is in context variables, so that lines of libraries that a reconcile
calls have it too.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, Protocol, TextIO, cast

from steersman.telemetry import startup_level
from steersman.telemetry.plain_structlog import structlog

__all__ = ["CONTEXT", "Logger", "bind", "configure", "get_logger", "hide_local_variables", "merge_context", "unbind"]

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


CONTEXT: ContextVar[Callable[[], Mapping[str, Any]] | None] = ContextVar("steersman_log_context", default=None)
"""Returns the values of a line when it is written, for loops whose values change more often than they log."""


class Logger(Protocol):
    """A logger of events: a stable snake_case name and fields."""

    def debug(self, event: str, **values: Any) -> None:
        """Log an event at level debug."""
        ...

    def info(self, event: str, **values: Any) -> None:
        """Log an event at level info."""
        ...

    def warning(self, event: str, **values: Any) -> None:
        """Log an event at level warning."""
        ...

    def error(self, event: str, **values: Any) -> None:
        """Log an event at level error."""
        ...

    def exception(self, event: str, **values: Any) -> None:
        """Log an event at level error with the traceback of the current exception."""
        ...


def get_logger(name: str) -> Logger:
    """Return the logger of a module or package; calls below the configured level are cheap."""
    hide_local_variables()
    return cast(Logger, structlog.get_logger(component=name))


def bind(**values: Any) -> Mapping[str, Any]:
    """Add values to every line of this context; return the tokens for `unbind`."""
    return structlog.contextvars.bind_contextvars(**values)


def unbind(tokens: Mapping[str, Any]) -> None:
    """Remove the values that `bind` added."""
    structlog.contextvars.reset_contextvars(**tokens)


def merge_context(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the values of `CONTEXT` to a line; values of the line take precedence. A structlog processor.

    `configure` installs it. Programs that configure structlog themselves add it after `merge_contextvars`.
    """
    ask = CONTEXT.get()
    return event if ask is None else {**ask(), **event}


def configure(*, level: str = "info", format: str = "auto", stream: TextIO | None = None) -> None:
    """Configure logging for the process.

    `level` is debug, info, warning or error; `format` is "json", "console" or "auto" (console on a terminal). Records
    of the standard library at level warning and above go to the same stream. Raises `ValueError` for other values.
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


if startup_level.level is not None:
    configure(level=startup_level.level, format="console")
