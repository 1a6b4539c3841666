"""For all tests: logging is the process's own, so what a test sets up must not outlive it; and nothing is timed."""

import logging
import sys

import pytest
import structlog
from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def _log_beside_the_tests() -> None:
    """What clusters of other tests say in the background is no output of the command that a test looks at."""
    structlog.reset_defaults()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.__stderr__))


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
