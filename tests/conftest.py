"""Settings of all tests: a test's configuration of the log ends with it, and no example has a deadline."""

import logging
import sys
import threading
from typing import Any, cast

import pytest
import structlog
from hypothesis import HealthCheck, settings

from steersman.telemetry.log import use_library_defaults

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


class _Output:
    """What a test logs is its output; what clusters of other tests say in their threads meanwhile is not."""

    def write(self, text: str) -> int:
        stream = sys.stdout if threading.current_thread() is threading.main_thread() else sys.__stderr__
        return stream.write(text) if stream is not None else 0

    def flush(self) -> None:
        sys.stdout.flush()


def _log_beside_the_tests() -> None:
    structlog.reset_defaults()
    use_library_defaults()  # rich takes minutes to show those of deeply nested objects
    processors = structlog.get_config()["processors"]
    structlog.configure(processors=processors, logger_factory=structlog.PrintLoggerFactory(cast(Any, _Output())))


_log_beside_the_tests()


@pytest.fixture(autouse=True)
def _logging_as_it_was():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    _log_beside_the_tests()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)
