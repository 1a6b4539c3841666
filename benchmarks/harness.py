"""Starts and drives what is measured: the stub server, the peers, and what they report.

Everything built lands in the user's cache, never in the tree. Server and peer are pinned to different cores
where there are two; the driver itself stays off the peer's core. CPU times come from each process's own rusage.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
Mark = Mapping[str, Any]
"""What a peer reported at one point: cpu (s), rss (bytes), counters, latencies (s)."""


class BenchmarkError(Exception):
    """A run that cannot be trusted: a peer died, lost events, or never finished."""


def cache_dir() -> Path:
    """Where binaries are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "steersman" / "benchmarks"


def build(module: str, name: str) -> Path:
    """Build a Go module of ours; Go's own cache makes a second build cheap.

    Raises BenchmarkError when there is no Go tool chain or the build fails.
    """
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise BenchmarkError("benchmarks need a Go tool chain (https://go.dev/dl): 'go' was not found on PATH")
    target = cache_dir() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, "build", "-trimpath", "-o", str(target), "."],
        cwd=HERE / module,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchmarkError(f"building {module} failed:\n{done.stderr}")
    return target


def cores() -> tuple[set[int], set[int]]:
    """The cores of the server (and this driver) and the core of the peer; the same set on a one-core machine."""
    available = sorted(os.sched_getaffinity(0))
    return ({available[0]}, {available[-1]})


class Stub:
    """The stub server as a process; `control` speaks to its control port."""

    def __init__(self, binary: Path) -> None:
        self._dir = tempfile.TemporaryDirectory(prefix="steersman-bench-")
        self.directory = Path(self._dir.name)
        server_cores, _ = cores()
        self._process = subprocess.Popen(
            [str(binary), "-dir", str(self.directory)], preexec_fn=lambda: os.sched_setaffinity(0, server_cores)
        )
        ready = self.directory / "ready.json"
        _wait(ready.exists, 10, "the stub server to listen")
        facts = json.loads(ready.read_text())
        self.url: str = facts["server"]
        self._control: str = facts["control"]
        self.kubeconfig = self.directory / "kubeconfig"
        self.ca = self.directory / "ca.pem"

    def control(self, method: str, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self._control + path, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())

    def reset(self, kind: str, count: int, seed: int) -> dict[str, Any]:
        return self.control("POST", f"/reset?kind={kind}&count={count}&seed={seed}")

    def load(self, kind: str, count: int, rate: float) -> None:
        self.control("POST", f"/load?kind={kind}&count={count}&rate={rate}")

    def counters(self) -> dict[str, Any]:
        return self.control("GET", "/counters")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._dir.cleanup()


class Peer:
    """One measured process. It reports by JSON lines; anything that it prints to stderr is shown when it fails."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._marks: dict[str, Mark] = {}
        self._arrived: queue.Queue[str | None] = queue.Queue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the peer
        _, peer_cores = cores()
        self.started = time.time()
        self._process = subprocess.Popen(
            list(command),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            preexec_fn=lambda: os.sched_setaffinity(0, peer_cores),
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """The process, for what the kernel counts."""
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                mark = json.loads(line)
                self._marks[mark["mark"]] = mark
                self._arrived.put(mark["mark"])
        self._arrived.put(None)

    def wait(self, name: str, timeout: float = 120) -> Mark:
        """The mark of that name. Raises BenchmarkError when the peer ends or stays silent first."""
        deadline = time.monotonic() + timeout
        while name not in self._marks:
            try:
                if self._arrived.get(timeout=max(0.01, deadline - time.monotonic())) is None:
                    raise BenchmarkError(f"{self.name} ended before {name!r}:\n{self._tail()}")
            except queue.Empty:
                raise BenchmarkError(f"{self.name} did not reach {name!r} in {timeout} s:\n{self._tail()}") from None
        return self._marks[name]

    def ask(self, verb: str) -> Mark:
        """`mark`: report as you are; `settle`: give back memory first."""
        assert self._process.stdin is not None
        self._marks.pop("asked", None)
        try:
            self._process.stdin.write(f"{verb} asked\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchmarkError(f"{self.name} died:\n{self._tail()}") from None
        return self.wait("asked")

    def until(self, done: Callable[[Mark], bool], timeout: float, what: str) -> Mark:
        """Ask until the counters satisfy `done`."""
        deadline = time.monotonic() + timeout
        while not done(mark := self.ask("mark")):
            if time.monotonic() > deadline:
                self._dump()
                raise BenchmarkError(
                    f"{self.name}: {what} did not happen in {timeout} s; last report: {dict(mark)}\n{self._tail()}"
                )
            time.sleep(0.1)
        return mark

    def failed(self, what: str) -> BenchmarkError:
        """What went wrong, with the last that the peer printed."""
        return BenchmarkError(f"{self.name} {what}\n{self._tail()}")

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def _dump(self) -> None:
        if not self.name.startswith("controller-runtime"):
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)

    def _tail(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-3000:].decode(errors="replace")


class Bench:
    """The stub server and how to start each peer against it."""

    def __init__(self) -> None:
        self.stub = Stub(build("server", "stub-server"))
        self._controller_runtime = build("peers/controller-runtime", "controller-runtime-peer")

    @contextlib.contextmanager
    def peer(self, name: str, kind: str = "widgets", mode: str = "informer") -> Iterator[Peer]:
        """Run a peer; its "starting" mark has arrived when the body begins."""
        started = Peer(name, self._command(name, kind, mode))
        try:
            started.wait("starting", 30)
            yield started
        finally:
            started.close()

    def _command(self, name: str, kind: str, mode: str) -> list[str]:
        kubeconfig = str(self.stub.kubeconfig)
        base, *variants = name.split("+")
        match base:
            case "controller-runtime":
                flags = {"strip": "-strip-managed-fields"}
                return [
                    str(self._controller_runtime), "-bench-kubeconfig", kubeconfig, "-kind", kind, "-mode", mode,
                    *(flags[v] for v in variants),
                ]  # fmt: skip
            case "kopf":
                return [
                    sys.executable, "-m", "benchmarks.peers.kopf_peer", "--kubeconfig", kubeconfig,
                    *(f"--{v}" for v in variants),
                ]  # fmt: skip
            case "steersman" | "rooms":
                return [
                    sys.executable, "-m", f"benchmarks.peers.{base}_peer", "--kubeconfig", kubeconfig,
                    "--kind", kind, "--mode", mode, *(f"--{v}" for v in variants),
                ]  # fmt: skip
            case _:
                raise BenchmarkError(f"unknown peer {name!r}")

    def close(self) -> None:
        self.stub.close()


def _wait(condition: Callable[[], bool], timeout: float, what: str) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"waited {timeout} s for {what}")
        time.sleep(0.01)
