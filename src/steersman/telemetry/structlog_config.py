"""Structured logs by structlog, for consoles and for programs that use structlog themselves."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, TextIO

from steersman.telemetry.log_context import CONTEXT
from steersman.telemetry.structlog_import import without_rich

with without_rich():
    import structlog

__all__ = ["configure", "is_silent", "logger_of", "merge_context", "use_library_defaults"]

_LIBRARY = "steersman"


class _SilentLogger:
    """The logger of Steersman in a program that has not configured logging; every line is dropped."""

    def _ignore(self, *_values: object, **_fields: object) -> None:
        pass

    debug = info = warning = error = exception = critical = _ignore


def logger_of(component: str) -> Any:
    """Return the structlog logger of a part of Steersman."""
    return structlog.get_logger(_LIBRARY, component=component)


def merge_context(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the values of `CONTEXT` to a line; values of the line take precedence. A structlog processor.

    `configure` installs it. Programs that configure structlog themselves add it after `merge_contextvars`.
    """
    ask = CONTEXT.get()
    return event if ask is None else {**ask(), **event}


def configure(level: int, out: TextIO, *, console: bool) -> None:
    """Configure structlog, and the standard library for the same stream and form.

    Args:
        level: The lowest level that is written, as a number of the standard library.
        out: The stream.
        console: Write lines for people instead of JSON.
    """
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
        wrapper_class=structlog.make_filtering_bound_logger(level),
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
    root.setLevel(max(level, logging.WARNING))


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
