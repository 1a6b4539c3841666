"""A real kube-apiserver with etcd that answers the benchmark's driver as the stub server does: reset, load, counters.

It holds the stub's own objects, so that rows mean the same on both. Server and writers share the first core, the peer
has the other. Load is made by a second client, sixteen requests in flight; a write that is refused ends the run.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from benchmarks import real_load
from benchmarks.harness import BenchmarkError, NotMeasuredError, Stub, cores
from steersman.testing import BinariesNotFoundError, ComponentError, ControlPlane

_TICK = os.sysconf("SC_CLK_TCK")
_CALM, _CALM_WITHIN = 0.15, 20.0
"""A server that takes less of its core is at rest, done with garbage and new kinds; seconds to wait for that."""
_PLANES = 3
"""Servers kept at a time: the empty one, and one for each kind of objects, since rows come round by round."""
_TIRED = 100_000
"""Writes after which a server starts anew, so that etcd's history stays small for the next peer."""


class RealServer(Stub):
    """Control planes by need: one that holds the objects asked for, and an empty one for what is subtracted.

    Objects stay between runs; their statuses are brought in accord with their specs before the next peer starts.
    """

    def __init__(self, source: Stub) -> None:
        self._source = source
        self._planes: dict[tuple[str, int], Plane] = {}
        self._now: Plane | None = None

    @property
    def kubeconfig(self) -> Path:  # type: ignore[override] - the stub's is one for its life
        """The administrator's, of the server that `reset` chose."""
        return self.plane.kubeconfig

    @property
    def plane(self) -> Plane:
        """The server that `reset` chose."""
        if self._now is None:
            raise BenchmarkError("reset comes first: it starts the server")
        return self._now

    def control(self, method: str, path: str) -> dict[str, Any]:
        raise BenchmarkError(f"a real API server cannot do {method} {path}")

    def reset(
        self, kind: str, count: int, seed: int, namespaces: int = 0, forms: str = "", *, quietly: bool = False
    ) -> dict[str, Any]:
        """Have `count` objects of a kind; the seed counts once, for a real server takes its time to be filled."""
        if quietly:
            raise BenchmarkError("objects come to a real API server one by one, and who watches is told of each")
        if namespaces:
            raise BenchmarkError("rows on a real API server use the namespaces that its objects come in")
        del forms  # it has them all
        key = (kind if count else "", count)
        plane = self._planes.pop(key, None)
        if plane is not None and plane.writes > _TIRED:
            plane.close()
            plane = None
        if plane is None:
            while len(self._planes) >= _PLANES:
                self._planes.pop(next(iter(self._planes))).close()
            plane = Plane(kind)
            if count:
                self._source.reset(kind, count, seed)
                plane.fill(self._source)
        self._planes[key] = self._now = plane
        plane.rest()
        return {"count": count}

    def load(self, kind: str, count: int, rate: float) -> None:
        """Change the objects in turn, in the background; `rate` 0 is as fast as sixteen writers are served."""
        self.plane.start(count, rate)

    def counters(self) -> dict[str, Any]:
        """PATCHes of status that the server has answered, and its CPU seconds, etcd's included."""
        return self.plane.counters()

    def close(self) -> None:
        for plane in self._planes.values():
            plane.close()
        self._planes.clear()
        self._source.close()


class Plane:
    """One kube-apiserver with its etcd, and what was written to it."""

    def __init__(self, kind: str) -> None:
        self.writes = 0
        self.answered: dict[str, int] = {}
        """The times of the responses to the last load's writes (ns), by their stamps."""
        self._kind = kind
        self._written: list[real_load.Known] = []
        self._stale = False
        self._writing: threading.Thread | None = None
        self._failure: BaseException | None = None
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores()[0])  # inherited by what is started now: a Go process sees one core
        try:
            self._server = ControlPlane.start(
                controller_manager=False, scheduler=False, apiserver_args=("--audit-log-path=",), ready_after=None
            )
        except BinariesNotFoundError as error:
            raise NotMeasuredError(str(error)) from None
        except ComponentError as error:
            raise BenchmarkError(str(error)) from None
        finally:
            os.sched_setaffinity(0, before)
        self.kubeconfig = self._server.kubeconfig
        self._session = self._server.session()
        real_load.define(self._server)

    def fill(self, source: Stub) -> None:
        """Create the stub's objects, statuses included."""

        async def work() -> None:
            self._written = await real_load.copy(source.kubeconfig, self.kubeconfig, self._kind)

        self._run(work)
        self.writes += 2 * len(self._written)

    def start(self, count: int, rate: float) -> None:
        """Begin to change the objects in turn."""
        self._stale = True
        self.writes += 2 * count
        self.answered = {}

        async def work() -> None:
            await real_load.touch(self.kubeconfig, self._kind, self._written, count, rate, self.answered)

        self._writing = self._thread(work)

    def rest(self) -> None:
        """Wait for the writers, write the current generation to each status, and wait until the server is idle."""
        self._join()
        if self._stale:

            async def work() -> None:
                self.writes += await real_load.settle(self.kubeconfig, self._kind)

            self._run(work)
            self._stale = False
        deadline = time.monotonic() + _CALM_WITHIN
        while self._load_of(0.5) > _CALM and time.monotonic() < deadline:
            pass

    def _load_of(self, seconds: float) -> float:
        """The share of a core that the server takes in the next `seconds`."""
        before = self._cpu()
        time.sleep(seconds)
        return (self._cpu() - before) / seconds

    def counters(self) -> dict[str, Any]:
        """See `RealServer.counters`."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise BenchmarkError(f"the writers failed: {failure}")
        cpu = self._cpu()  # before the server is asked for its metrics
        return {"patches": self._patches(), "cpuSeconds": cpu, "loadRunning": self._busy()}

    def _cpu(self) -> float:
        return sum(_cpu(pid) for pid in self._server.pids.values())

    def close(self) -> None:
        """Stop the server; writers fail."""
        self._session.close()
        self._server.close()

    @property
    def pids(self) -> Mapping[str, int]:
        """The processes of the server, by component."""
        return self._server.pids

    def log(self, component: str) -> Path:
        """Return the log file of a component."""
        return self._server.log(component)

    def _busy(self) -> bool:
        return self._writing is not None and self._writing.is_alive()

    def _patches(self) -> int:
        text: str = self._session.call("GET", "/metrics")["text"]
        lines = (line for line in text.splitlines() if line.startswith("apiserver_request_total{"))
        wanted = ('verb="PATCH"', 'subresource="status"', 'code="200"', f'resource="{self._kind}"')
        return sum(int(float(line.rpartition(" ")[2])) for line in lines if all(part in line for part in wanted))

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._thread(work).join()
        self._join()

    def _join(self) -> None:
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise BenchmarkError(f"the writers failed: {failure}")

    def _thread(self, work: Callable[[], Coroutine[Any, Any, None]]) -> threading.Thread:
        def body() -> None:
            os.sched_setaffinity(0, cores_of_server)  # this thread alone
            try:
                with asyncio.Runner(loop_factory=real_load.loop_factory()) as runner:
                    runner.run(work())
            except BaseException as error:  # noqa: BLE001 - handed to the driver's thread
                self._failure = error

        cores_of_server = cores()[0]
        thread = threading.Thread(target=body, name="writers", daemon=True)
        thread.start()
        return thread


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK
