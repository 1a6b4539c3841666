"""The list of the conformance tests, and one process of the suite for each test that runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml

from tests.e2e.results import Outcome, Result

__all__ = ["Suite", "conformance_tests", "failure_of", "is_serial", "seconds_allowed"]

_TEST_SECONDS: Final = 300.0
_SECONDS: Final = {
    "CronJob": 600.0,
    "500 podspec updates": 480.0,
    "compacted away": 720.0,
    "there exists conflict between pods": 480.0,
    "StatefulSet": 480.0,
}
"""The time that tests get which need more than the others, by a part of their names."""

_REASON_MAX_CHARACTERS: Final = 400
_KILL_GRACE_SECONDS: Final = 20.0


def conformance_tests(source: Path) -> list[str]:
    """Return the names of all conformance tests, as the module of Kubernetes lists them."""
    listed = cast(Any, yaml.safe_load((source / "test/conformance/testdata/conformance.yaml").read_text()))
    return sorted(str(test["codename"]) for test in listed)


def is_serial(test: str) -> bool:
    """Tell whether a test must run alone."""
    return "[Serial]" in test or "[Disruptive]" in test


def seconds_allowed(test: str) -> float:
    """Return how long a test may run."""
    return max([_TEST_SECONDS, *(seconds for part, seconds in _SECONDS.items() if part in test)])


def failure_of(report: Path) -> str | None:
    """Return the reason of the failure that a JUnit report tells, or None where the report has no failure."""
    for case in ElementTree.parse(report).iter("testcase"):
        for tag in ("failure", "error"):
            if (found := case.find(tag)) is not None:
                return _shortened(found.get("message") or found.text or "the report gives no reason")
    return None


def _shortened(text: str) -> str:
    line = re.sub(r"\s+", " ", text).strip()
    # Names that each run makes anew would make every run differ from the last.
    line = re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b", "UID", line)
    line = re.sub(r"0x[0-9a-f]+", "0x…", line)
    return line if len(line) <= _REASON_MAX_CHARACTERS else line[: _REASON_MAX_CHARACTERS - 1] + "…"


@dataclass(frozen=True)
class Suite:
    """The settings for tests of the suite against one cluster.

    Args:
        program: The built suite.
        kubectl: The kubectl that the tests call.
        kubeconfig: The credentials of the cluster's administrator.
        logs: Where the output of each test is kept.
    """

    program: Path
    kubectl: Path
    kubeconfig: Path
    logs: Path

    def command(self, test: str, reports: Path) -> list[str]:
        """Return the command that runs one test."""
        return [
            str(self.program),
            f"--ginkgo.focus={re.escape(test)}",
            "--ginkgo.fail-on-empty",
            "--ginkgo.no-color",
            "--ginkgo.succinct",
            f"--ginkgo.timeout={int(seconds_allowed(test))}s",
            "--provider=skeleton",
            "--minStartupPods=-1",
            "--allowed-not-ready-nodes=-1",
            f"--kubectl-path={self.kubectl}",
            f"--kubeconfig={self.kubeconfig}",
            f"--report-dir={reports}",
        ]

    async def run(self, test: str) -> Result:
        """Run one test; the process is killed when its time is over, and when the caller is cancelled."""
        began = time.monotonic()
        name = re.sub(r"[^A-Za-z0-9]+", "-", test).strip("-")[:120]
        reports = self.logs / name
        shutil.rmtree(reports, ignore_errors=True)
        reports.mkdir(parents=True)
        with open(reports / "output.log", "wb") as output:  # noqa: ASYNC230 - a local file, for the process
            process = await asyncio.create_subprocess_exec(
                *self.command(test, reports), stdout=output, stderr=output, stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
            try:
                await asyncio.wait_for(process.wait(), seconds_allowed(test) + _KILL_GRACE_SECONDS)
            except TimeoutError:
                pass
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        seconds = time.monotonic() - began
        return _result(test, seconds, process.returncode or 0, sorted(reports.glob("junit*.xml")))


def _result(test: str, seconds: float, code: int, reports: Sequence[Path]) -> Result:
    try:
        failures = [failure for report in reports if (failure := failure_of(report)) is not None]
    except ElementTree.ParseError as problem:
        failures = [f"the report cannot be read: {problem}"]
    if code == 0 and reports and not failures:
        return Result(test, Outcome.PASSED, seconds)
    if failures:
        return Result(test, Outcome.FAILED, seconds, failures[0])
    reason = f"the process ended with {code} and without a report"
    if code == -signal.SIGKILL:
        reason = f"no result after {seconds_allowed(test):.0f} s"
    return Result(test, Outcome.FAILED, seconds, reason)
