"""Logs must be machine-readable and carry their context; a metric must exist once."""

import io
import json
import logging
import subprocess
import sys

import pytest
import structlog

from steersman.telemetry import log, metrics


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_json_line_carries_the_context_that_was_bound():
    out = io.StringIO()
    log.configure(format="json", stream=out)
    logger = log.get_logger("tests")
    tokens = structlog.contextvars.bind_contextvars(reconcile_id="r1", namespace="default")
    logger.info("applied", kind="Deployment")
    structlog.contextvars.reset_contextvars(**tokens)
    logger.info("idle")
    applied, idle = lines(out)
    assert applied["event"] == "applied"
    assert applied["level"] == "info"
    assert (applied["reconcile_id"], applied["namespace"], applied["kind"]) == ("r1", "default", "Deployment")
    assert "reconcile_id" not in idle


def test_values_may_be_asked_for_when_a_line_is_written():
    out = io.StringIO()
    log.configure(format="json", stream=out)
    asked = []

    def ask():
        asked.append(1)
        return {"reconcile_id": "r2", "kind": "HelloApp"}

    token = log.CONTEXT.set(ask)
    log.get_logger("tests").debug("chatter")
    log.get_logger("tests").info("applied", kind="Deployment")
    logging.getLogger("somebody.else").warning("watch out")
    log.CONTEXT.reset(token)
    log.get_logger("tests").info("idle")
    applied, foreign, idle = lines(out)
    assert (applied["reconcile_id"], applied["kind"]) == ("r2", "Deployment")
    assert foreign["reconcile_id"] == "r2"
    assert "reconcile_id" not in idle
    assert len(asked) == 2


def test_lines_below_the_level_are_not_written():
    out = io.StringIO()
    log.configure(level="warning", format="json", stream=out)
    log.get_logger("tests").info("chatter")
    log.get_logger("tests").warning("heed")
    assert [line["event"] for line in lines(out)] == ["heed"]


def test_an_exception_is_one_json_line_with_its_traceback():
    out = io.StringIO()
    log.configure(format="json", stream=out)
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        log.get_logger("tests").exception("reconcile_failed")
    (line,) = lines(out)
    assert "RuntimeError: broken" in line["exception"]


def test_the_standard_library_logs_into_the_same_stream():
    out = io.StringIO()
    log.configure(format="json", stream=out)
    logging.getLogger("somebody.else").warning("watch out")
    assert lines(out)[0]["event"] == "watch out"


def test_a_terminal_format_is_for_people():
    out = io.StringIO()
    log.configure(format="console", stream=out)
    log.get_logger("tests").info("applied", kind="Deployment")
    assert "applied" in out.getvalue()
    assert not out.getvalue().startswith("{")


@pytest.mark.parametrize(("words", "message"), [({"level": "loud"}, "log level"), ({"format": "xml"}, "log format")])
def test_an_unknown_word_is_refused_with_the_ones_that_work(words, message):
    with pytest.raises(ValueError, match=message):
        log.configure(**words)


def test_declaring_a_metric_again_returns_the_first():
    first = metrics.counter("steersman_test_total", "Things.", ["kind"])
    assert metrics.counter("steersman_test_total", "Things.", ["kind"]) is first
    with pytest.raises(ValueError, match="already declared as a counter"):
        metrics.gauge("steersman_test_total", "Things.")


def test_tracebacks_on_a_console_show_no_local_variables():
    """Objects and credentials stand in local variables, and must not reach a log."""
    out = io.StringIO()
    log.configure(level="info", format="console", stream=out)
    password = "hunter2-in-a-local"
    try:
        raise ValueError(f"{len(password)} characters")
    except ValueError:
        log.get_logger("test").exception("it failed")
    assert "ValueError: 18 characters" in out.getvalue()
    assert password not in out.getvalue()


def test_a_json_line_keeps_letters_beyond_ascii_readable():
    stream = io.StringIO()
    log.configure(format="json", stream=stream)
    log.get_logger("test").info("waiting…", name="Grüße")
    assert "waiting…" in stream.getvalue()
    assert "Grüße" in stream.getvalue()


_AS_A_LIBRARY = """
import structlog
from steersman.telemetry.log import configure, get_logger
get_logger("shop").info("written_by_the_library")
structlog.get_logger().info("written_by_the_program")
try:
    1 / 0
except ZeroDivisionError:
    get_logger("shop").exception("failed_in_the_library")
{configure}
get_logger("shop").info("written_when_configured")
"""


@pytest.mark.parametrize(
    "configure",
    ["configure(format='json')", "structlog.configure(logger_factory=structlog.PrintLoggerFactory())"],
)
def test_a_library_is_silent_until_the_program_configures_logging(configure: str):
    program = [sys.executable, "-c", _AS_A_LIBRARY.format(configure=configure)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    said = done.stdout + done.stderr
    assert "written_by_the_program" in said
    assert "written_when_configured" in said
    assert "the_library" not in said
