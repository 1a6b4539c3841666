"""Starts and drives what is measured: the stub server, the peers, and what they report.

What there is to build is `toolchains`' business. Server and peer are pinned to different cores
where there are two; the driver itself stays off the peer's core. CPU times come from each process's own rusage.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import toolchains
from benchmarks.toolchains import BenchmarkError, NotMeasuredError, build, cache_dir, versions

__all__ = [
    "HERE", "ROOT", "Bench", "BenchmarkError", "Mark", "NotMeasuredError", "Peer", "Stub", "build", "cache_dir",
    "cores", "versions",
]  # fmt: skip

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
Mark = Mapping[str, Any]
"""A report of a peer at one point: cpu (s), rss and peak (bytes), counters, latencies (s)."""


def cores() -> tuple[set[int], set[int]]:
    """The cores of the server (and this driver) and the core of the peer; the same set on a one-core machine."""
    available = sorted(os.sched_getaffinity(0))
    return ({available[0]}, {available[-1]})


_IMPOSSIBLE = 3
"""The exit status of a peer that cannot do what it was asked."""
_PYTHON = {
    "steersman": "steersman_peer",
    "rooms": "rooms_peer",
    "kopf": "kopf_peer",
    "official-client": "official_client_peer",
}
_OURS = ("steersman", "rooms")
_INTERPRETED = "interpreted"
"""The variant of ours that is plain Python, nothing compiled."""
_DISTRIBUTIONS = {"kopf": "kopf", "official-client": "kubernetes"}
_GO = ("controller-runtime", "client-go", "bare")
_VARIANTS: Mapping[str, Sequence[str]] = {
    "strip": ("strip-managed-fields",),
    "protobuf": ("wire", "protobuf"),
    "unstructured": ("form", "unstructured"),
    "metadata": ("form", "metadata"),
    "http1": ("http", "1.1"),
    "http2": ("http", "2"),
    _INTERPRETED: (),
}
"""The flag and the value for a suffix of a peer's name (after a plus) that is no flag itself; empty for neither."""


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
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace").strip()
            raise BenchmarkError(f"the stub server refused {method} {path}: {said}") from None

    def reset(
        self, kind: str, count: int, seed: int, namespaces: int = 0, forms: str = "", *, quietly: bool = False
    ) -> dict[str, Any]:
        """The world is these objects and no others; `namespaces` > 0 puts them into bench-0, bench-1, … in turn.

        `forms` are encoded at once, not at the first request: protobuf, metadata, metadata-protobuf.
        `quietly` leaves watches open, and does not tell them.
        """
        more = (f"&namespaces={namespaces}" if namespaces else "") + (f"&forms={forms}" if forms else "")
        more += "&quietly=1" if quietly else ""
        return self.control("POST", f"/reset?kind={kind}&count={count}&seed={seed}{more}")

    def expire(self, kind: str) -> None:
        """End the watches of a kind with 410 Expired, so that the watchers list again."""
        self.control("POST", f"/expire?kind={kind}")

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

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._marks: dict[str, Mark] = {}
        self._arrived: queue.Queue[str | None] = queue.Queue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the peer
        _, peer_cores = cores()
        self.started = time.time()
        self._process = subprocess.Popen(
            list(command),
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
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

    def terminate(self, timeout: float = 60) -> tuple[float, float]:
        """SIGTERM, as a kubelet sends it, and wait: seconds until the process was gone, and the CPU it took for that.

        Raises BenchmarkError when it lingers, or ends with another status than 0.
        """
        before = self.poll()["cpu"]
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        _, status, usage = self._reaped(began + timeout)
        took = time.monotonic() - began
        self._process.returncode = os.waitstatus_to_exitcode(status)
        if self._process.returncode:
            raise self.failed(f"ended with status {self._process.returncode} when it was told to stop")
        return took, usage.ru_utime + usage.ru_stime - before

    def _reaped(self, deadline: float) -> tuple[int, int, resource.struct_rusage]:
        while True:
            done = os.wait4(self.pid, os.WNOHANG)
            if done[0]:
                return done
            if time.monotonic() > deadline:
                raise self.failed("did not stop when it was told to")
            time.sleep(0.0005)

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
                    raise self._ended(name)
            except queue.Empty:
                raise BenchmarkError(f"{self.name} did not reach {name!r} in {timeout} s:\n{self._tail()}") from None
        return self._marks[name]

    def ask(self, verb: str) -> Mark:
        """`mark`: report as you are; `settle`: give back memory first, and begin anew with latencies and peak."""
        return self._ask(verb, "asked")

    def told(self, name: str) -> Mark:
        """Return the last mark of that name that has arrived; empty if there is none."""
        return self._marks.get(name, {})

    def poll(self) -> Mark:
        """The counters, cheaply: neither latencies nor memory."""
        return self._ask("mark", "poll")

    def _ask(self, verb: str, name: str) -> Mark:
        assert self._process.stdin is not None
        self._marks.pop(name, None)
        try:
            self._process.stdin.write(f"{verb} {name}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchmarkError(f"{self.name} died:\n{self._tail()}") from None
        return self.wait(name)

    def until(self, done: Callable[[Mark], bool], timeout: float, what: str, pause: float = 0.1) -> Mark:
        """Poll until the counters satisfy `done`; the mark says nothing of latencies and memory."""
        deadline = time.monotonic() + timeout
        while not done(mark := self.poll()):
            if time.monotonic() > deadline:
                self._dump()
                raise BenchmarkError(
                    f"{self.name}: {what} did not happen in {timeout} s; last report: {dict(mark)}\n{self._tail()}"
                )
            time.sleep(pause)
        return mark

    def _ended(self, awaited: str) -> BenchmarkError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        if self._process.returncode == _IMPOSSIBLE:
            return NotMeasuredError(f"{self.name}: {self._tail().strip()}")
        return BenchmarkError(f"{self.name} ended before {awaited!r}:\n{self._tail()}")

    def failed(self, what: str) -> BenchmarkError:
        """Return the error with the last output of the peer."""
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
        if self.name.partition("+")[0] in _PYTHON:  # the others die of it
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)

    def _tail(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-3000:].decode(errors="replace")


class Bench:
    """A server and how to start each peer against it. Peers are built when they are first asked for."""

    def __init__(self, stub: Stub | None = None) -> None:
        """`stub` is another server that can be driven as the stub server is."""
        self.stub = stub or Stub(build("server", "stub-server"))
        self.baselines: dict[tuple[object, ...], Any] = {}
        """The results of peers without objects, shared by the rows that subtract them."""
        self._programs: dict[str, list[str] | BenchmarkError] = {}

    def prepare(self, peer: str) -> None:
        """Build what a peer needs, so that no run has to. Raises NotMeasuredError and BenchmarkError as `peer` does."""
        self._program(peer.partition("+")[0])
        self._environment(peer)

    @contextlib.contextmanager
    def peer(self, name: str, kind: str = "widgets", mode: str = "informer", **options: int | str) -> Iterator[Peer]:
        """Run a peer; its "starting" mark has arrived when the body begins.

        `options` are further flags of every peer: form, wire, controllers, namespaces, workers. Raises NotMeasuredError
        when the peer cannot be had or cannot do that.
        """
        command = [*self._command(name, kind, mode), *self._flags(name, options)]
        started = Peer(name, command, self._environment(name))
        try:
            started.wait("starting", 60)
            yield started
        finally:
            started.close()

    def _command(self, name: str, kind: str, mode: str) -> list[str]:
        """The command line of a peer: its program and the flags that all have, and its variants' (`peer+variant`)."""
        base, *variants = name.split("+")
        dash = "-" if base in _GO else "--"
        kubeconfig = "-bench-kubeconfig" if base in _GO else "--kubeconfig"
        command = [
            *self._program(base),
            kubeconfig,
            str(self.stub.kubeconfig),
            f"{dash}kind",
            kind,
            f"{dash}mode",
            mode,
        ]
        for variant in variants:
            words = _VARIANTS.get(variant, (variant,))
            command += [dash + words[0], *words[1:]] if words else []
        return command

    def _environment(self, name: str) -> Mapping[str, str]:
        """Ours is measured as it is installed from a compiled wheel; with `+interpreted`, as it is in the tree."""
        base, *variants = name.split("+")
        if base not in _OURS or _INTERPRETED in variants:
            return {}
        wheel = toolchains.wheel()
        return {} if wheel is None else {"PYTHONPATH": str(wheel)}

    def _flags(self, name: str, options: Mapping[str, int | str]) -> list[str]:
        dash = "-" if name.partition("+")[0] in _GO else "--"
        return [part for flag, value in options.items() for part in (dash + flag, str(value))]

    def _program(self, base: str) -> list[str]:
        if base not in self._programs:
            try:
                self._programs[base] = self._built(base)
            except BenchmarkError as error:
                self._programs[base] = error
        program = self._programs[base]
        if isinstance(program, BenchmarkError):
            raise program
        return program

    def _built(self, base: str) -> list[str]:
        match base:
            case _ if base in _PYTHON:
                module = _PYTHON[base]
                needed = _DISTRIBUTIONS.get(base, "steersman")
                if importlib.util.find_spec(needed) is None:
                    raise NotMeasuredError(f"the package {needed!r} is not installed")
                toolchains.bytecode(ROOT / "src", HERE)
                return [sys.executable, "-m", f"benchmarks.peers.{module}"]
            case _ if base in _GO:
                return [str(build("peers/go", f"go-{base}", f"./cmd/{base}"))]
            case "kube-rs":
                return [str(toolchains.rust())]
            case "java-operator-sdk":
                return toolchains.java()
            case _:
                raise BenchmarkError(f"unknown peer {base!r}")

    def close(self) -> None:
        self.stub.close()


def _wait(condition: Callable[[], bool], timeout: float, what: str) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"waited {timeout} s for {what}")
        time.sleep(0.01)
