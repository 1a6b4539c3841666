"""JSON lines without structlog are those of structlog, which is configured when the program imports it."""

import json
import subprocess
import sys

import pytest

LINES = """
import logging
from steersman.logs import configure, get_logger
from steersman.telemetry.log_context import CONTEXT
{first}
configure(level="info", format="json")
log = get_logger("shop")
log.debug("not_written")
log.info("backup_completed", shop="Grüße", seconds=12, path=object, level_of="x")
token = CONTEXT.set(lambda: {{"kind": "Shop", "name": "north"}})
log.warning("backup_late", name="south")
logging.getLogger("library").warning("watch %s", "out")
logging.getLogger("library").info("not written")
try:
    1 / 0
except ZeroDivisionError as problem:
    log.exception("backup_failed", shop="north")
    log.error("backup_failed", exc_info=problem)
    log.error("backup_failed", exc_info=True)
    logging.getLogger("library").exception("failed")
log.error("backup_failed", exc_info=None)
CONTEXT.reset(token)
get_logger("other").info("done")
import sys
print("structlog" in sys.modules)
"""


def run(program: str) -> tuple[list[dict], str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [json.loads(line, object_pairs_hook=dict) for line in done.stderr.splitlines()], done.stdout.strip()


def comparable(lines: list[dict]) -> list[list[tuple[str, object]]]:
    return [[(key, value) for key, value in line.items() if key != "timestamp"] for line in lines]


def test_the_lines_are_those_of_structlog_key_by_key():
    plain, without = run(LINES.format(first=""))
    through, with_it = run(LINES.format(first="import structlog"))
    assert (without, with_it) == ("False", "True")
    assert comparable(plain) == comparable(through)
    assert len(plain) == 9
    assert all(line["timestamp"].endswith("Z") for line in plain)
    assert "ZeroDivisionError" in plain[3]["exception"]


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_program_that_uses_structlog_gets_the_same_lines_wherever_it_imports_it(place: str):
    imports = "import structlog"
    lines, _ = run(
        f"""
from steersman.logs import configure, get_logger
log = get_logger("shop")
{imports if place == "before" else ""}
configure(format="json")
log.info("first")
{imports if place == "after" else ""}
structlog.get_logger().info("of_the_program", shop="north")
structlog.contextvars.bind_contextvars(request="7")
log.info("second")
"""
    )
    assert [line["event"] for line in lines] == ["first", "of_the_program", "second"]
    assert lines[1]["shop"] == "north"
    assert lines[2]["request"] == "7"


def test_structlog_is_imported_without_rich():
    program = """
import steersman.telemetry.log, sys
import structlog
print("rich" in sys.modules, structlog.dev.rich, structlog.__spec__.name)
import rich
"""
    assert run(program)[1] == "False None structlog"


def test_a_program_that_imports_structlog_later_is_not_shown_local_variables():
    program = """
import steersman.telemetry.log
import structlog
def failing():
    password = "hunter2-in-a-local"
    raise ValueError("no")
try:
    failing()
except ValueError:
    structlog.get_logger().exception("failed")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ValueError: no" in done.stdout + done.stderr
    assert 'hunter2-in-a-local"\n' not in done.stdout.replace("password = ", "")


def test_a_configuration_of_the_program_is_kept():
    program = """
from steersman.logs import get_logger
import structlog
structlog.configure(
    processors=[structlog.processors.KeyValueRenderer()], logger_factory=structlog.PrintLoggerFactory()
)
get_logger("shop").info("backup_completed", seconds=12)
"""
    assert "seconds=12" in run(program)[1]
