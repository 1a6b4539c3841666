"""Operators beside a test: each in a separate thread and event loop, with the permissions that it declares.

Requests that lack a permission are recorded, because the shipped roles would lack it, too. Probes and metrics are off.
Webhooks are served on a free local port; the administrator registers them for the namespaces of the operator while it
runs.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from concurrent.futures import CancelledError
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, Any, Final

import structlog

from steersman.client.config import Config, load_config
from steersman.controller.blocking import LoopEndedError, run_in_loop
from steersman.operator.operator import Operator
from steersman.operator.run import Replica
from steersman.operator.settings import Settings
from steersman.telemetry.log import is_silent
from steersman.testing.rbac import identity
from steersman.testing.recording import Reconcile, Recorder, recorded

if TYPE_CHECKING:
    from steersman.testing.cluster import Cluster

__all__ = ["ObservedReplica", "Operators", "RunningOperator", "idle_settings", "operator_of"]

_START: Final = 30.0
_END: Final = 30.0
_LINES: ContextVar[list[Mapping[str, Any]] | None] = ContextVar("steersman_test_log", default=None)


def operator_of(what: Any) -> Operator:
    """Return the operator of an operator, a module or `"module:attribute"`. Raises `TypeError`."""
    if isinstance(what, str):
        name, _, attribute = what.partition(":")
        module = importlib.import_module(name)
        what = getattr(module, attribute) if attribute else module
    if isinstance(what, Operator):
        return what
    names: dict[str, Any] = getattr(what, "__dict__", {})
    found = [value for value in names.values() if isinstance(value, Operator)]
    if len({id(one) for one in found}) != 1:
        raise TypeError(f"{what!r} has {len(found)} operators; give one, or 'module:attribute'")
    return found[0]


def idle_settings(namespaces: Sequence[str], home: str, changes: Mapping[str, Any]) -> Settings:
    """Return settings for a test: no ports, no election, no drain delay; `changes` override them."""
    values: dict[str, Any] = {
        "namespaces": tuple(namespaces),
        "leader_elect": False,
        "lease_namespace": home,
        "metrics_bind_address": "0",
        "health_probe_bind_address": "0",
        "webhook_bind_address": "127.0.0.1:0",
        "gc_tuning": False,
        "shutdown_grace": 5.0,
    }
    if changes.get("namespace_selector"):
        values["namespaces"] = ()
    return Settings(**{**values, **changes})


class ObservedReplica(Replica):
    """A replica with reads of its queues and workers, in the thread of its loop."""

    @property
    def missing(self) -> list[str]:
        """Return why its controllers do not run; empty if they do."""
        if self._controllers is None or self._unready:
            return [self._unready or "starting"]
        informers = [informer for running in self._controllers.controllers for informer in running.informers]
        return sorted({f"{i.kind}: {i.problem or 'still listing'}" for i in informers if not i.synced})

    @property
    def standby(self) -> bool:
        """Whether it is ready and waits for the lease; the work in its queues waits, too."""
        return self.elector is not None and not self.elector.leading and not self._unready

    @property
    def busy(self) -> list[str]:
        """Return the keys that wait for a worker or are with one; delayed keys do not count."""
        if self._controllers is None:
            return []
        found: list[str] = []
        for running in self._controllers.controllers:
            controller = running.controller
            found += [f"{controller.name} {request.key} runs" for request in controller.busy]
            if waiting := len(controller.queue):
                found.append(f"{controller.name}: {waiting} in the queue")
        return found

    @property
    def scheduled(self) -> tuple[str, ...]:
        """Return the keys that are reconciled later, with their controllers."""
        if self._controllers is None:
            return ()
        controllers = [running.controller for running in self._controllers.controllers]
        return tuple(sorted(f"{one.name} {key}" for one in controllers for key in one.queue.state.scheduled()))

    @property
    def retries_in(self) -> float:
        """Return the seconds until the next retry of a failed key; infinity without one."""
        if self._controllers is None:
            return inf
        queues = [running.controller.queue for running in self._controllers.controllers]
        return min((queue.state.next_retry() - queue.now() for queue in queues), default=inf)


class RunningOperator:
    """One operator that runs beside the test. Created by the `operator` fixture."""

    def __init__(self, operator: Operator, config: Config, settings: Settings, user: str, admin: Config) -> None:
        self.user = user
        """The user name in the audit log."""
        self.settings = settings
        self.recorder = Recorder()
        self.log: list[Mapping[str, Any]] = []
        """Its log lines as mappings: `event`, `level`, and the fields."""
        self.problem: BaseException | None = None
        """The exception that ended it, except after `stop`."""
        self._operator, self._config, self._admin = operator, config, admin
        self._replica: ObservedReplica | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name=f"operator-{operator.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        _LINES.set(self.log)
        try:
            asyncio.run(self._live())
        except BaseException as problem:  # noqa: BLE001 - told by `verdict`, in the test's own thread
            self.problem = problem

    async def _live(self) -> None:
        self._operator.check()
        self._stop = asyncio.Event()
        # Outside of the cluster the caller registers the webhooks, not the operator.
        self._replica = ObservedReplica(
            recorded(self._operator, self.recorder), self._config, self.settings, registers_as=self._admin
        )
        self._loop = asyncio.get_running_loop()
        await self._replica.run(self._stop)

    @property
    def running(self) -> bool:
        """Whether the thread of the operator runs."""
        return self._thread.is_alive()

    @property
    def reconciles(self) -> list[Reconcile]:
        """The finished runs of its controllers, in the order of their ends."""
        return list(self.recorder.reconciles)

    def wait_ready(self, within: float = _START) -> None:
        """Wait until its controllers run. Raises `AssertionError`, or the exception that ended the operator."""
        self._until(lambda replica: replica.missing, 0.0, within, "runs")

    def wait_idle(self, quiet: float = 0.2, within: float = 30.0) -> None:
        """Wait until nothing is queued or running, for `quiet` seconds in a row. Raises `AssertionError`."""
        self._until(lambda replica: replica.busy, quiet, within, "is idle")

    def _until(self, ask: Callable[[ObservedReplica], list[str]], quiet: float, within: float, what: str) -> None:
        async def look() -> tuple[list[str], int]:
            assert self._replica is not None
            return ask(self._replica), len(self.recorder.reconciles)

        deadline = time.monotonic() + within
        since, seen, left = time.monotonic(), -1, ["it starts"]
        while True:
            if not self._thread.is_alive():
                raise self.problem or AssertionError(f"operator {self._operator.name} has ended")
            if self._loop is not None and self._replica is not None:
                try:
                    left, done = run_in_loop(self._loop, look(), within)
                except (CancelledError, LoopEndedError):  # The loop has ended; the next pass reports why.
                    self._thread.join(1.0)
                    continue
                if left or done != seen:
                    since, seen = time.monotonic(), done
                if not left and time.monotonic() - since >= quiet:
                    return
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"after {within:g} s operator {self._operator.name} still not {what}: {'; '.join(left)}"
                    f"\nlast reconciles: {'; '.join(map(str, self.reconciles[-5:])) or 'none'}"
                )
            time.sleep(0.01)

    def stop(self, within: float = _END) -> None:
        """Shut the operator down gracefully. Idempotent. Raises `AssertionError` if it does not end."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(within)
        if self._thread.is_alive():
            raise AssertionError(f"operator {self._operator.name} does not end within {within:g} s")


class Operators:
    """Starts operators on a cluster, and stops all of them at the end of the test."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._running: list[RunningOperator] = []
        self._made: list[tuple[str, str]] = []
        self._processors: list[Any] | None = None
        self._logger_factory: Any = None

    def __call__(
        self,
        what: Any,
        *,
        namespaces: Iterable[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        install: bool = True,
        wait: bool = True,
        admin: bool = False,
    ) -> RunningOperator:
        """Run an operator (itself, its module, or `"module:attribute"`) and return when its controllers run.

        `namespaces` are the watched ones: by default that of the test, all of them if empty. `settings` are fields of
        `steersman.operator.Settings`. `install` applies the CRDs of its classes first. `wait=False` returns at once.
        `admin` runs it as the administrator instead of a user with its declared permissions. The cluster calls its
        webhooks for requests in these namespaces.
        """
        operator, cluster = operator_of(what), self._cluster
        home = cluster.namespace
        changes = dict(settings or {})
        wanted = idle_settings((home,) if namespaces is None else tuple(namespaces), home, changes)
        if install:
            self._install(operator)
        if admin:
            config, user = cluster.config, "kubernetes-admin"
        else:
            config, user = self._identity(operator, wanted, home)
        self._listen()
        running = RunningOperator(operator, config, wanted, user, cluster.config)
        self._running.append(running)
        if wait:
            running.wait_ready()
        return running

    def _install(self, operator: Operator) -> None:
        from steersman.manifests.config_directory import crds

        if found := crds(operator):
            self._cluster.apply(*found)

    def _identity(self, operator: Operator, settings: Settings, home: str) -> tuple[Config, str]:
        objects = identity(
            operator,
            home,
            namespaces=settings.namespaces,
            namespace_selector=settings.namespace_selector is not None,
        )
        self._cluster.apply(*objects)
        self._made += [(o["kind"], o["metadata"]["name"]) for o in objects if "namespace" not in o["metadata"]]
        user = f"system:serviceaccount:{home}:{operator.name}"
        kubeconfig = self._cluster.service_account_kubeconfig(operator.name, namespace=home)
        for role in objects:
            if role["kind"] in ("Role", "ClusterRole") and role["rules"]:
                self._cluster.wait_in_force(user, (), role["metadata"].get("namespace", home), role["rules"][-1])
        return load_config(kubeconfig), user

    def _listen(self) -> None:
        """Record the log lines of operators, in addition to the normal output."""
        if self._processors is None:
            self._processors = list(structlog.get_config()["processors"])
            self._logger_factory = structlog.get_config()["logger_factory"]
            structlog.configure(
                processors=[*self._processors[:-1], _keep, self._processors[-1]],
                logger_factory=structlog.PrintLoggerFactory() if is_silent() else self._logger_factory,
            )

    def close(self) -> None:
        """Stop all operators, and delete their ServiceAccounts and roles."""
        try:
            for running in reversed(self._running):
                running.stop()
        finally:
            if self._processors is not None:
                structlog.configure(processors=self._processors, logger_factory=self._logger_factory)
                self._processors = None
            for kind, name in self._made:
                self._cluster.delete(kind, name)
            self._made.clear()

    def verdict(self) -> str:
        """Return the problems that fail the test besides its assertions; empty if there are none."""
        from steersman.testing.cluster import UnsupportedError

        problems = [
            f"an operator ended unexpectedly: {one.problem!r}" for one in self._running if one.problem is not None
        ]
        for user in dict.fromkeys(one.user for one in self._running):
            try:
                refused = self._cluster.audit.refused(user)
            except UnsupportedError:
                continue  # The audit log of an existing cluster is not readable.
            if refused:
                problems.append(
                    f"{user} has no permission for requests that the operator does not declare; "
                    "add the kind to owns=, reads= or watches=, or "
                    "operator.permit(…):\n  " + "\n  ".join(refused)
                )
        return "\n".join(problems)


def _keep(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    lines = _LINES.get()
    if lines is not None:
        lines.append(dict(event))
    return event
