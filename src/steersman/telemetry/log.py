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

__all__ = [
    "CONTEXT",
    "Logger",
    "bind",
    "configure",
    "get_logger",
    "is_silent",
    "merge_context",
    "unbind",
    "use_library_defaults",
]

_LIBRARY = "steersman"
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


class _SilentLogger:
    """The logger of Steersman in a program that has not configured logging; every line is dropped."""

    def _ignore(self, *_values: object, **_fields: object) -> None:
        pass

    debug = info = warning = error = exception = critical = _ignore


def get_logger(name: str) -> Logger:
    """Return the logger of a module or package; it writes nothing until the program configures logging.

    Calls below the configured level are cheap.
    """
    use_library_defaults()
    return cast(Logger, structlog.get_logger(_LIBRARY, component=name))


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


def use_library_defaults() -> None:
    """Configure structlog for a program that has not configured it: Steersman writes no log lines.

    Lines of other loggers go where structlog writes them by default, with tracebacks that do not show the values of
    local variables: those may contain Secrets and tokens.
    """
    if structlog.is_configured():
        return
    render = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)

    def render_unless_silent(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        if isinstance(logger, _SilentLogger):
            raise structlog.DropEvent
        return render(logger, method, event)

    processors = structlog.get_config()["processors"]
    structlog.configure(
        processors=[
            render_unless_silent if isinstance(each, structlog.dev.ConsoleRenderer) else each for each in processors
        ],
        logger_factory=_create_library_logger,
    )


def is_silent() -> bool:
    """Return whether Steersman writes no log lines, because the program has not configured logging."""
    return structlog.get_config()["logger_factory"] is _create_library_logger


def _create_library_logger(*names: object) -> object:
    return _SilentLogger() if _LIBRARY in names else structlog.PrintLogger()


if startup_level.level is not None:
    configure(level=startup_level.level, format="console")
