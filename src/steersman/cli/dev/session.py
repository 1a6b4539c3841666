"""One session of `steersman dev`: a cluster, the CRDs of the project, and the operator.

The cluster runs in this process. The operator is a child process: it can be restarted when a file changes, and a
blocked event loop or a crash of the operator does not stop the cluster or the view.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from steersman.cli.dev.definitions import Definitions, project_directory
from steersman.cli.dev.logfile import LogFile, log_path
from steersman.cli.dev.process import command
from steersman.cli.dev.state import DevState, EventLine, Object, forest, log_line
from steersman.manifest_files import Manifest, read
from steersman.manifest_files.apply import load
from steersman.signals import stop_on_signals
from steersman.version import __version__
from steersman_cluster.cli.host import STOP_SIGNALS, started
from steersman_cluster.cli.load import line as outcome_line
from steersman_cluster.detached import Record, claim

if TYPE_CHECKING:
    from steersman_cluster.cluster import DevCluster, Options

__all__ = ["Session", "SessionOptions"]

_GRACE = 20.0
_CRD = "CustomResourceDefinition"
_CHILDREN = (
    ("apps", "deployments", "Deployment"),
    ("apps", "statefulsets", "StatefulSet"),
    ("apps", "daemonsets", "DaemonSet"),
    ("apps", "replicasets", "ReplicaSet"),
    ("batch", "cronjobs", "CronJob"),
    ("batch", "jobs", "Job"),
    ("", "pods", "Pod"),
    ("", "services", "Service"),
    ("", "configmaps", "ConfigMap"),
    ("", "secrets", "Secret"),
    ("", "serviceaccounts", "ServiceAccount"),
    ("", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("networking.k8s.io", "ingresses", "Ingress"),
)


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The options of a session."""

    target: str
    cluster: Options
    name: str
    load: tuple[Path, ...] = ()
    reload: bool = True
    live: bool = True
    settings: tuple[tuple[str, Any], ...] = ()
    """Settings of the operator, as for `steersman run`."""


class Session:
    """Create a session; see `run`."""

    def __init__(self, options: SessionOptions, say: Callable[[str], None]) -> None:
        self.options = options
        self.scene = DevState(options.target)
        self.project = project_directory(options.target, Path.cwd())
        self._definitions = Definitions(options.target, self.project)
        self._say = say
        self._child: subprocess.Popen[bytes] | None = None
        self._child_ended = asyncio.Event()
        self._pumps: set[asyncio.Task[None]] = set()
        self._lifeline: tuple[int, int] = (-1, -1)
        self._kinds: list[tuple[str, str, str]] = []
        self._cluster: DevCluster | None = None
        self._stopping = False
        self._file: LogFile | None = None

    @property
    def crds(self) -> Path:
        """Return the directory of the operator's CustomResourceDefinitions."""
        return self._definitions.directory

    async def run(self, ready: Callable[[], None], draw: Callable[[], None]) -> int:
        """Start everything, wait for a signal or the end of the operator, and stop everything; returns the exit code.

        Calls `ready` when the cluster runs and the manifests are loaded, and `draw` when the state has changed.
        """
        with claim(self.options.name) as mine, stop_on_signals(*STOP_SIGNALS) as stop:
            record = Record(
                name=self.options.name, pid=os.getpid(), steersman=__version__, started=time.time(), detached=False,
                kubeconfig=str(mine.kubeconfig), nodes=self.options.cluster.nodes,
                node_kind=self.options.cluster.node_kind,
                data=None if self.options.cluster.data is None else str(self.options.cluster.data.absolute()),
            )  # fmt: skip
            mine.record(record)
            async with AsyncExitStack() as stack:
                stack.callback(self._definitions.close)
                if self.options.live:
                    self._file = LogFile(log_path(self.options.name))
                    stack.callback(self._file.close)
                    self.scene.log_file = str(self._file.path)
                cluster = self._cluster = await started(replace(self.options.cluster, kubeconfig=mine.kubeconfig))
                stack.push_async_callback(cluster.close)
                self.scene.kubeconfig, self.scene.url = str(mine.kubeconfig), cluster.url
                async with cluster.client() as client:
                    version = (await client.server_version()).git_version
                mine.record(replace(record, ready=True, url=cluster.url, kubernetes=version))
                self._write_to_log_file(f"Kubernetes {version} is ready; in another terminal:")
                self._write_to_log_file(f"  export KUBECONFIG={mine.kubeconfig}")
                await self._make_definitions()
                await self._load()
                self._lifeline = os.pipe()
                stack.callback(self._close_lifeline)
                self._start()
                stack.push_async_callback(self._stop_child)
                ready()
                return await self._keep(stop, draw)

    async def _keep(self, stop: asyncio.Event, draw: Callable[[], None]) -> int:
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
        if self.options.reload:
            waiting.append(asyncio.create_task(self._reload()))
        else:
            waiting.append(asyncio.create_task(self._child_ended.wait()))
        background = [asyncio.create_task(self._refresh(draw))] if self.options.live else []
        try:
            await asyncio.wait([*waiting, *background], return_when=asyncio.FIRST_COMPLETED)
            self._stopping = True
            for task in (*waiting, *background):
                if task.done():
                    task.result()
            if not stop.is_set() and self._child is not None and (code := self._child.poll()) is not None:
                self._log(f"the operator has ended with code {code}")
                return code if code >= 0 else 128 - code
            return 0
        finally:
            for task in (*waiting, *background):
                task.cancel()
            await asyncio.gather(*waiting, *background, return_exceptions=True)

    # Manifests.

    async def _make_definitions(self) -> bool:
        """Make the definitions that `config/crd` does not have; return whether they have changed."""
        changed, problem = await self._definitions.make()
        if problem:
            self._log(f"steersman: no CustomResourceDefinition could be made from {self.options.target}: {problem}")
        return changed

    async def _load(self) -> None:
        assert self._cluster is not None
        manifests, problems = read([path for path in (self.crds, *self.options.load) if path.exists()])
        manifests = self._without_conversions(manifests)
        for problem in problems:
            self._log(f"error: {problem}")
        async with self._cluster.client() as client:
            async for outcome in load(client, manifests, field_manager="steersman-dev", force=True):
                if outcome.action == "failed":
                    self._log(f"error: {outcome_line(outcome)}")
                elif outcome.action != "unchanged":
                    self._log(outcome_line(outcome))
        self._find_kinds()

    def _without_conversions(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        """Return the manifests, without `spec.conversion` of the project's CRDs, which the running operator sets."""
        own = {m.name for m in read([self.crds])[0] if m.kind == _CRD} if self.crds.is_dir() else set[str]()

        def changed(manifest: Manifest) -> Manifest:
            if manifest.kind != _CRD or manifest.name not in own or not isinstance(manifest.body.get("spec"), dict):
                return manifest
            spec = {key: value for key, value in manifest.body["spec"].items() if key != "conversion"}
            return replace(manifest, body={**manifest.body, "spec": spec})

        return [changed(manifest) for manifest in manifests]

    def _find_kinds(self) -> None:
        """Return the kinds of the root objects in the view: reconciled by the operator or defined in the project."""
        from steersman.cli.operator_loader import LoadError, load_operator

        found: dict[tuple[str, str], str] = {}
        try:
            for controller in load_operator(self.options.target).controllers:
                info = controller.kind.info
                found[info.group, info.plural] = info.kind
        except LoadError:
            pass  # An import error is reported by the operator's process.
        if self.crds.is_dir():
            for manifest in read([self.crds])[0]:
                if manifest.kind == _CRD:
                    spec = manifest.body["spec"]
                    found[spec["group"], spec["names"]["plural"]] = spec["names"]["kind"]
        self._kinds = [(group, plural, kind) for (group, plural), kind in found.items()]

    # The operator.

    def _start(self) -> None:
        reports, report_to = os.pipe()
        piped = self.options.live
        detached = self.options.reload or piped
        settings = {
            "kubeconfig": self.scene.kubeconfig,
            "log_format": "json" if piped else "console",
            **dict(self.options.settings),
        }
        words = command(self.options.target, settings, report_to, self._lifeline[0])
        child = subprocess.Popen(  # noqa: S603 - ourselves
            words,
            # Without reload and view, a debugger may use the terminal.
            stdin=subprocess.DEVNULL if detached else None,
            stdout=subprocess.PIPE if piped else None,
            stderr=subprocess.STDOUT if piped else None,
            pass_fds=(report_to, self._lifeline[0]),
            # A process group of its own: this process forwards Ctrl-C once.
            start_new_session=detached,
        )
        os.close(report_to)
        self._child = child
        self.scene.operator, self.scene.running = "starting", False
        self._pump(self._reports(reports))
        if child.stdout is not None:
            self._pump(self._output(child.stdout))
        self._pump(self._wait(child))

    def _pump(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)

    async def _reports(self, descriptor: int) -> None:
        async for line in _lines_of(os.fdopen(descriptor, "rb")):
            self.scene.report(line, time.strftime("%H:%M:%S"))

    async def _output(self, pipe: IO[bytes]) -> None:
        async for line in _lines_of(pipe):
            text = line.decode(errors="replace").rstrip("\n")
            self._log(log_line(text), text)

    async def _wait(self, child: subprocess.Popen[bytes]) -> None:
        while child.poll() is None:  # noqa: ASYNC110 - a process has no event
            await asyncio.sleep(0.1)
        if child is self._child and not self._stopping:
            self.scene.operator, self.scene.running = f"ended with code {child.returncode}", False
            if self.options.reload:
                self._log(f"steersman: the operator has ended with code {child.returncode}; waiting for a change")
            self._child_ended.set()

    async def _stop_child(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.poll() is None:
            child.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + _GRACE
            while child.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            if child.poll() is None:
                self._log("steersman: the operator does not stop; killing it")
                child.kill()
                child.wait()
        for task in list(self._pumps):
            with suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(task, 1.0)

    def _close_lifeline(self) -> None:
        for descriptor in self._lifeline:
            os.close(descriptor)

    async def _reload(self) -> None:
        """Restart the operator when a Python file changes; load manifests again when one of them changes."""
        from watchfiles import PythonFilter, awatch  # pyright: ignore[reportUnknownVariableType] - anyio's Event

        files = self.options.load if self._definitions.made else (self.crds, *self.options.load)
        manifests = [path for path in files if path.exists()]
        python = PythonFilter()

        def wanted(change: Any, path: str) -> bool:
            return python(change, path) or any(Path(path).is_relative_to(m.absolute()) for m in manifests)

        watched = {Path.cwd(), self.project, *(m.absolute() for m in manifests)}
        async for changes in awatch(*watched, watch_filter=wanted):
            paths = {Path(path) for _, path in changes}
            loaded = {path for path in paths if path.suffix in (".yaml", ".yml", ".json")}
            if loaded:
                self._log(f"steersman: changed: {_names(loaded)}; loading")
                await self._load()
            if paths - loaded:
                self._log(f"steersman: changed: {_names(paths - loaded)}; restarting")
                if await self._make_definitions():
                    await self._load()
                await self._stop_child()
                self._child_ended.clear()
                self._start()

    def _log(self, text: str, written: str = "") -> None:
        """Show a line and append it to the log file; `written` is the form for the file."""
        self.scene.log.append(text)
        self.scene.changed()
        if self._file is not None:
            self._file.write(written or text)
        if not self.options.live:
            self._say(text)

    def _write_to_log_file(self, text: str) -> None:
        """Append a line to the log file that the view shows elsewhere."""
        if not self.options.live:
            self._say(text)

    # View.

    async def _refresh(self, draw: Callable[[], None]) -> None:
        """Update the state from the cluster, and redraw it when it has changed."""
        assert self._cluster is not None
        storage = self._cluster.server.storage
        revision, drawn, beat = -1, -1, 0
        while True:
            if storage.revision != revision:
                revision = storage.revision
                self._read(storage)
            beat += 1
            # The size of the terminal may have changed: redraw periodically.
            if self.scene.version != drawn or beat % 10 == 0:
                drawn = self.scene.version
                draw()
            await asyncio.sleep(0.2)

    def _read(self, storage: Any) -> None:
        def objects(group: str, plural: str, kind: str) -> list[Object]:
            return [{**item.object(), "kind": kind} for item in storage.items((group, plural))]

        roots = [obj for kind in self._kinds for obj in objects(*kind)]
        others = [obj for kind in _CHILDREN if kind not in self._kinds for obj in objects(*kind)]
        self.scene.roots = forest(roots, [*roots, *others])
        owned = {(b.kind, b.name) for b in _every(self.scene.roots)}
        events = sorted(storage.items(("", "events")), key=lambda item: -item.revision)
        told = (_event(item.object(), owned) for item in events[:200])
        self.scene.events = tuple(line for line in told if line is not None)[:30]
        self.scene.changed()


def _every(branches: Iterable[Any]) -> Iterable[Any]:
    for branch in branches:
        yield branch
        yield from _every(branch.children)


def _event(event: Object, shown: set[tuple[str, str]]) -> EventLine | None:
    about: dict[str, str] = event.get("involvedObject") or event.get("regarding") or {}
    if shown and (about.get("kind"), about.get("name")) not in shown:
        return None
    series: dict[str, str] = event.get("series") or {}
    at: str = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or ""
    return EventLine(
        at=at[11:19],
        warning=event.get("type") == "Warning",
        about=f"{about.get('kind', '')}/{about.get('name', '')}",
        reason=event.get("reason") or "",
        message=(event.get("message") or event.get("note") or "").replace("\n", " "),
    )


async def _lines_of(pipe: IO[bytes]) -> AsyncGenerator[bytes]:
    """Yield the lines of a pipe until its end."""
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while line := await reader.readline():
            yield line
    except ValueError:
        return  # The line is longer than the limit of a log line.
    finally:
        transport.close()


def _names(paths: set[Path]) -> str:
    names = sorted(os.path.relpath(path) for path in paths)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
