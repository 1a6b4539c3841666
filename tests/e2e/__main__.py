"""Runs the conformance suite of Kubernetes against the embedded cluster: `python -m tests.e2e`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.e2e import images
from tests.e2e.results import (
    ExpectationError,
    Outcome,
    Result,
    differences,
    expected,
    from_json,
    markdown,
    surprises,
    to_json,
)
from tests.e2e.selection import listed, quick, repeated
from tests.e2e.suite import Suite, conformance_tests, is_serial

_ROOT: Final = Path(__file__).parents[2]
_EXPECTED: Final = Path(__file__).with_name("expected_failures.yaml")
_RESULTS: Final = _ROOT / "docs" / "conformance-suite.json"
_PAGE: Final = _ROOT / "docs" / "conformance-suite.md"
_KEPT: Final = "results.json"
_START_SECONDS: Final = 60.0


def _built(*, cached_only: bool) -> dict[str, Path]:
    """Return the programs by name, built where they are missing."""
    script = [str(_ROOT / "hack" / "conformance.sh")]
    if not cached_only:
        subprocess.run(script, check=True)
    printed = subprocess.run([*script, "--print"], check=True, capture_output=True, text=True)
    directory = Path(printed.stdout.strip())
    found = {path.name: path for path in directory.iterdir()} if directory.is_dir() else {}
    if "e2e.test" not in found:
        raise SystemExit("conformance: the suite is not built: run hack/conformance.sh")
    controlplane = subprocess.run(
        ["sh", str(_ROOT / "hack" / "controlplane" / "build.sh"), "--print"], check=True, capture_output=True, text=True
    )
    for name in ("etcd", "kubectl"):
        found[name] = Path(controlplane.stdout.strip()) / name
        if not found[name].exists():
            raise SystemExit(f"conformance: {name} is not built: run make controlplane")
    return found


def _module() -> Path:
    listed = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"],
        cwd=_ROOT / "hack" / "conformance", check=True, capture_output=True, text=True,
    )  # fmt: skip
    return Path(listed.stdout.strip())


@contextlib.contextmanager
def _cluster(images_file: Path, directory: Path) -> Iterator[Path]:
    """A cluster of two process nodes in a process of its own; yields its kubeconfig."""
    kubeconfig, log = directory / "kubeconfig", directory / "cluster.log"
    environment = {**os.environ, "XDG_STATE_HOME": str(directory / "state")}
    command = [
        str(Path(sys.executable).with_name("steersman-cluster")), "start", "--nodes", "2", "--node-kind", "process",
        "--images", str(images_file), "--network", "namespaces", "--kubeconfig", str(kubeconfig),
    ]  # fmt: skip
    with open(log, "wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        until = time.monotonic() + _START_SECONDS
        while "is ready at" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"conformance: the cluster did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        yield kubeconfig
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _run(suite: Suite, tests: Sequence[str], workers: int, keep: Callable[[Result], None]) -> None:
    """Run the tests, first those that may run side by side, then the serial ones, and give each result to `keep`."""

    async def work(queue: list[str]) -> None:
        while queue:
            keep(await suite.run(queue.pop(0)))

    serial = [test for test in tests if is_serial(test)]
    parallel = [test for test in tests if not is_serial(test)]
    await asyncio.gather(*(work(parallel) for _ in range(workers)))
    await work(serial)


def _line(result: Result) -> str:
    line = f"{result.outcome} {result.seconds:5.1f} s  {result.test}"
    return line if result.outcome is Outcome.PASSED else f"{line}\n    {result.reason}"


def _execute(
    options: argparse.Namespace,
    tests: Sequence[str],
    programs: dict[str, Path],
    source: Path,
    results: list[Result],
    expectations: Mapping[str, str],
) -> None:
    """Start a cluster with the images, run tests on it, and add and store each result at once."""
    root_file_systems = programs["e2e.test"].parents[1] / "images"
    try:
        images.build(root_file_systems, programs, source)
    except images.ImageBuildError as problem:
        raise SystemExit(f"conformance: {problem}") from None
    with (
        tempfile.TemporaryDirectory(prefix="conformance-") as directory,
        _cluster(images.images_file(root_file_systems), Path(directory)) as kubeconfig,
    ):
        suite = Suite(programs["e2e.test"], programs["kubectl"], kubeconfig, options.logs)
        options.logs.mkdir(parents=True, exist_ok=True)

        def keep(result: Result) -> None:
            results[:] = [*(known for known in results if known.test != result.test), result]
            (options.logs / _KEPT).write_text(to_json(results, _version(source)), "utf-8")
            print(_line(result), flush=True)

        asyncio.run(_run(suite, tests, options.workers, keep))
        if again := repeated(results, expectations, options.forgive):
            print(f"\n{len(again)} failed: once more, alone", flush=True)
            asyncio.run(_run(suite, again, 1, keep))


def _version(source: Path) -> str:
    """Return the version of Kubernetes' module."""
    return source.name.rpartition("@")[2]


def main() -> int:
    """Run the suite; the exit code is 1 if a result differs from the expected one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--focus", default="", help="a regular expression: only tests whose names it matches")
    parser.add_argument("--workers", type=int, default=4, help="how many tests run side by side")
    parser.add_argument("--cached", action="store_true", help="build nothing")
    parser.add_argument("--quick", action="store_true", help="the part that takes minutes: fast tests of all SIGs")
    parser.add_argument("--logs", type=Path, default=_ROOT / "build" / "conformance", help="where output is kept")
    parser.add_argument("--tests", type=Path, help="a file with names of tests, one a line: only these tests")
    parser.add_argument("--resume", action="store_true", help="keep the results of a run that was interrupted")
    parser.add_argument("--retry", action="store_true", help="with --resume: run the tests again that failed")
    parser.add_argument("--forgive", type=int, default=0, help="run at most so many failed tests once more, alone")
    parser.add_argument("--no-report", action="store_true", help="do not write docs/conformance-suite.*")
    options = parser.parse_args()
    programs, source = _built(cached_only=options.cached), _module()
    every = conformance_tests(source)
    version = _version(source)
    before = from_json(_RESULTS.read_text("utf-8")) if _RESULTS.exists() else []
    tests = [test for test in every if re.search(options.focus, test)]
    if options.tests:
        try:
            tests = listed(options.tests.read_text("utf-8"), tests)
        except ValueError as problem:
            raise SystemExit(f"conformance: {options.tests}: {problem}") from None
    if options.quick:
        tests = quick(tests, before, options.workers)
    kept = options.logs / _KEPT
    results = from_json(kept.read_text("utf-8")) if options.resume and kept.exists() else []
    if options.retry:
        results = [result for result in results if result.outcome is Outcome.PASSED or result.test not in set(tests)]
    done = {result.test for result in results}
    tests = [test for test in tests if test not in done]
    try:
        expectations = expected(_EXPECTED, every)
    except ExpectationError as problem:
        raise SystemExit(f"conformance: {problem}") from None
    if tests:
        _execute(options, tests, programs, source, results, expectations)
    complete = len(results) == len(every)
    if complete and not options.no_report:
        changes = differences(results, before)
        page = markdown(results, version=version, total=len(every), expectations=expectations, changes=changes)
        _PAGE.write_text(page, "utf-8")
        _RESULTS.write_text(to_json(results, version), "utf-8")
    passed = sum(result.outcome is Outcome.PASSED for result in results)
    print(f"\n{passed} of {len(results)} tests passed")
    unexpected = surprises(results, expectations)
    print("\n".join(unexpected))
    return 1 if unexpected else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
