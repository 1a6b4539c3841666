"""The run loop: starts the parts of a replica in order, keeps them running, and stops them in order.

Start: probes, metrics, client, CustomResourceDefinitions (if the settings install them), caches, lease, start-up hooks,
controllers and timers. Stop (R4): intake, running reconciles with a grace period in which their API calls still go
through, shutdown hooks, caches, and the lease last of all (L3). Probes and metrics are served on every replica, leader
or not (L4). The replica waits for an API server that cannot be reached or that refuses: no crash loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from steersman.cache import NO_MEMORY_POLICY, Cache, MemoryPolicy
from steersman.client import NO_RETRIES, Client
from steersman.client.config import Config, Impersonation
from steersman.client.transport import Transport, transport_for
from steersman.controller import LoopWatchdog
from steersman.controller.apply import Applier
from steersman.controller.cached_state import CachedState
from steersman.controller.events import EventRecorder
from steersman.controller.periodic import Periodic
from steersman.operator.controller_set import ControllerSet
from steersman.operator.crds import install_crds
from steersman.operator.declarations import TimerDeclaration
from steersman.operator.endpoints import serve_metrics, serve_probes
from steersman.operator.handlers import call_handler, run_hooks
from steersman.operator.health import Health, loop_moves
from steersman.operator.leaderelection.elector import LeaderElector, monotonic
from steersman.operator.leaderelection.lease import ApiLease
from steersman.operator.leaderelection.pod_lock import PodLock, new_identity
from steersman.operator.operator import Operator
from steersman.operator.runtime import Runtime
from steersman.operator.settings import Settings, SettingsError
from steersman.operator.shutdown import cancel_and_wait, close_cache, first_completed, stop_controllers
from steersman.operator.startup import describe_unsynced, start_caches, wait_for_api_server, wait_for_kinds_of
from steersman.operator.tracing import Tracing, require_tracing, start_tracing
from steersman.operator.transports import DryRunTransport, GatedTransport, TracedTransport
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger

if TYPE_CHECKING:
    from steersman.operator.webhooks import Webhooks
    from steersman.webhook.http import WebhookServer

__all__ = ["Replica", "run_operator"]

log = get_logger("operator")


async def run_operator(
    operator: Operator,
    config: Config,
    settings: Settings | None = None,
    *,
    stop: asyncio.Event | None = None,
    rng: random.Random | None = None,
    now: Now = utc_now,
    definitions: Sequence[Mapping[str, Any]] = (),
    memory: MemoryPolicy = NO_MEMORY_POLICY,
) -> None:
    """Run one replica of `operator` until `stop` is set; returns after a clean shutdown.

    A cancellation shuts down in the same order. The settings of the allocator and the garbage collector belong to the
    program: `steersman run` passes `ProcessMemory()`, and a library call changes nothing by default.

    Args:
        operator: The operator.
        config: The address of the API server and the credentials.
        settings: The settings; by default the defaults.
        stop: Starts the shutdown when it is set.
        rng: The source of jitter.
        now: Returns the wall clock time.
        definitions: The CustomResourceDefinitions that the setting `install_crds` installs, as
            `steersman.manifests.crds` returns them.
        memory: The memory settings of the process while caches fill; by default none.

    Raises:
        LeadershipLostError: Another replica leads (L2).
        DeclarationError: The operator cannot work.
        SettingsError: A setting cannot work.
        MissingExtraError: Tracing is on, and OpenTelemetry is not installed.
        BindError: An address is in use.
        StartupHookError: A start-up hook raised an exception.
    """
    operator.check()
    settings = settings or Settings()
    settings.check()
    if settings.tracing:
        require_tracing()
    if settings.install_crds and not definitions:
        raise SettingsError("install-crds: there is no definition to install; pass `definitions=crds(operator)`")
    replica = Replica(operator, config, settings, rng=rng, now=now, definitions=definitions, memory=memory)
    await replica.run(stop or asyncio.Event())


class Replica:
    """One replica of an operator: its tasks, from the start of the process to its end."""

    def __init__(
        self,
        operator: Operator,
        config: Config,
        settings: Settings,
        *,
        rng: random.Random | None = None,
        now: Now = utc_now,
        clock: Callable[[], float] = monotonic,
        transport: Callable[[Config], Transport] = transport_for,
        registers_as: Config | None = None,
        webhook_server: type[WebhookServer] | None = None,
        definitions: Sequence[Mapping[str, Any]] = (),
        memory: MemoryPolicy = NO_MEMORY_POLICY,
    ) -> None:
        """Prepare a replica; `run` starts it.

        Args:
            operator: The operator.
            config: How to reach the API server, and as which user.
            settings: The settings of this process.
            rng: The source of jitter.
            now: The wall clock.
            clock: Measures the lease, in seconds; it runs in a suspended machine, too.
            transport: Makes the transport of each client.
            registers_as: The user that registers webhooks outside of the cluster; `config` by default.
            webhook_server: The class of the server that the API server calls; by default `WebhookServer`.
            definitions: The CustomResourceDefinitions to install if the settings enable it.
            memory: The memory settings of the process while caches fill; by default none.
        """
        self.operator = operator
        self.settings = settings
        self.health = Health()
        self.identity = new_identity()
        self._pod_locked = False
        self.elector: LeaderElector | None = None
        self._config = _impersonating(config, settings)
        self._rng = rng or random.Random()  # noqa: S311 - jitter, no secrets
        self._memory = memory
        self._now = now
        self._clock = clock
        self._make_transport = transport
        self._registers_as = registers_as
        self._webhook_server = webhook_server
        self._definitions = definitions
        self._unready = "starting"
        self._tasks: list[asyncio.Task[Any]] = []
        self._timers: list[Periodic] = []
        self._over = asyncio.Event()
        """Set when a task that runs as long as the replica has ended: the lease, a controller."""
        self._hooks_ran = False
        self._hold: asyncio.Task[Any] | None = None
        self._controllers: ControllerSet | None = None
        self._webhooks: Webhooks | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set; see `run_operator`."""
        async with AsyncExitStack() as stack:
            self._lock_pod(stack)
            watchdog = stack.enter_context(LoopWatchdog())
            self.health.live["loop"] = loop_moves(watchdog.stalled_for, self.settings.liveness_stall)
            self.health.ready["replica"] = lambda: self._unready or None
            if (probes := serve_probes(self.health, self.settings)) is not None:
                stack.callback(probes.close)
            tracing = start_tracing(self.operator.name) if self.settings.tracing else None
            if tracing is not None:
                stack.callback(tracing.close)
            # Leases and reviews have separate connections, so that many writes do not delay a renewal, and have no
            # retries below those of the election.
            system = await stack.enter_async_context(
                Client(self._config, transport=self._make_transport(self._config), retries=NO_RETRIES)
            )
            if (metrics := serve_metrics(system, self.settings)) is not None:
                stack.callback(metrics.close)
            await self._live(stack, stop, system, tracing)

    async def _live(self, stack: AsyncExitStack, stop: asyncio.Event, system: Client, tracing: Tracing | None) -> None:
        elector = self._make_elector(system)
        client = await stack.enter_async_context(self._make_client(elector, tracing))
        cache = Cache(client, rng=self._rng, now=self._now, memory=self._memory)
        recorder = EventRecorder(
            client,
            self.operator.name,
            self.identity,
            allowed=elector.may_write if elector is not None else lambda: True,
            now=self._now,
            rng=self._rng,
        )
        runtime = Runtime(
            client,
            cache,
            Applier(cast(Any, client), CachedState(cache), self.operator.field_manager),
            recorder,
            field_manager=self.operator.field_manager,
            now=self._now,
            rng=self._rng,
            tracing=tracing,
            waits=not self.settings.dry_run,
        )
        self._controllers = controllers = ControllerSet(self.operator, cache, runtime, self.settings, rng=self._rng)
        if self.operator.webhooks:
            self._webhooks = self._make_webhooks(await self._registrar(stack, system), cache, runtime, tracing)
        stopped = asyncio.create_task(stop.wait(), name="stop")
        over = asyncio.create_task(self._over.wait(), name="over")
        start = asyncio.create_task(self._start(system, cache, runtime, controllers, elector), name="start")
        try:
            await first_completed(stopped, over, start)
            if start.done():
                start.result()
                await first_completed(stopped, over)
            self._raise_failure()
        finally:
            stopped.cancel()
            over.cancel()
            await self._shut_down(start, cache, runtime, recorder)

    def _raise_failure(self) -> None:
        if self._hold is not None and self._hold.done():
            self._hold.result()
        for task in self._tasks:
            if task.done():
                task.result()
                raise RuntimeError(f"{task.get_name()} ended unexpectedly")

    # Start.

    async def _start(
        self,
        system: Client,
        cache: Cache,
        runtime: Runtime,
        controllers: ControllerSet,
        elector: LeaderElector | None,
    ) -> None:
        await wait_for_api_server(system, self._config, self._rng, self._set_unready)
        self._unready = "the caches are not synced yet"
        if self.settings.install_crds:
            self._unready = "the CustomResourceDefinitions are not installed yet"
            await self._install_crds()
            self._unready = "the caches are not synced yet"
        webhooks = self._webhooks
        if webhooks is not None:
            if webhooks.wanted:
                self.health.ready["webhooks"] = webhooks.unready
            await webhooks.start()
        warm = elector is None or self.settings.warm_standby or (webhooks is not None and webhooks.reads)
        if warm:
            await self._start_caches(cache)
        if elector is not None:
            self._unready = ""  # A standby that can take over is ready.
            await elector.acquire()
            self._hold = self._permanent_task(elector.hold(), "lease")
        if not warm:
            await self._start_caches(cache)
        await run_hooks(self.operator, "startup", runtime, controllers.reader)
        self._hooks_ran = True
        self._task(runtime.recorder.run(), "events")
        for running in controllers.controllers:
            self._task(
                running.controller.run(partial(wait_for_kinds_of, cache, running, self.settings.sync_timeout)),
                f"controller {running.declaration.name}",
            )
        for timer in self.operator.timers:
            self._timers.append(self._timer(timer, runtime))
            self._task(self._timers[-1].run(), f"timer {timer.name}")
        self._unready = ""
        log.info(
            "operator_started",
            operator=self.operator.name,
            controllers=[w.declaration.name for w in controllers.controllers],
            namespaces=self.settings.namespace_selector or list(self.settings.namespaces) or "all",
            dry_run=self.settings.dry_run,
        )

    def _set_unready(self, reason: str) -> None:
        self._unready = reason

    async def _install_crds(self) -> None:
        """Install the definitions, on every replica: caches list their kinds before there is a leader."""
        manager = f"{self.operator.field_manager}-crds"
        async with Client(self._config, transport=self._make_transport(self._config), rng=self._rng) as client:
            await install_crds(client, self._definitions, manager=manager, dry_run=self.settings.dry_run)

    async def _start_caches(self, cache: Cache) -> None:
        self.health.ready["caches"] = lambda: describe_unsynced(cache)
        await start_caches(cache, self.settings.sync_timeout)
        self._memory.caches_synced()

    def _timer(self, declared: TimerDeclaration, runtime: Runtime) -> Periodic:
        reader = runtime.reader(declared.reads, f"timer {declared.name}")

        async def tick() -> None:
            await reader.wait_for_own_writes()
            await call_handler(declared.handler, runtime, reader)

        return Periodic(declared.name, declared.interval, tick, initial_delay=declared.interval, rng=self._rng)

    def _task(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        self._tasks.append(self._permanent_task(work, name))

    def _permanent_task(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda _: self._over.set())
        return task

    # Stop.

    async def _shut_down(
        self, start: asyncio.Task[None], cache: Cache, runtime: Runtime, recorder: EventRecorder
    ) -> None:
        controllers = self._controllers
        assert controllers is not None
        self._unready = "shutting down"
        runtime.stopping = True
        await cancel_and_wait(start)
        lost = self._hold is not None and self._hold.done()
        grace = 0.0 if lost else self.settings.shutdown_grace  # No write is possible without the lease.
        if self._tasks:
            log.info("shutdown_started", grace=grace)
        for timer in self._timers:
            timer.stop()
        timers = [task for task in self._tasks if task.get_name().startswith("timer ")]
        await stop_controllers(controllers, timers, self._hold, grace)
        if self._hooks_ran and not lost:
            await run_hooks(self.operator, "shutdown", runtime, controllers.reader)
        if self._tasks and not lost:
            await recorder.drain(2.0)
        await cancel_and_wait(*self._tasks)
        if self._webhooks is not None:
            await self._webhooks.close()
        controllers.close()
        await close_cache(cache)
        if self._hold is not None:
            await cancel_and_wait(self._hold)
        if self.elector is not None:
            await self.elector.release()
        log.info("operator_stopped", operator=self.operator.name)

    # Parts.

    async def _registrar(self, stack: AsyncExitStack, system: Client) -> Client:
        if self._registers_as is None:
            return system
        transport = self._make_transport(self._registers_as)
        return await stack.enter_async_context(Client(self._registers_as, transport=transport))

    def _make_webhooks(self, registrar: Client, cache: Cache, runtime: Runtime, tracing: Tracing | None) -> Webhooks:
        from steersman.operator.webhooks import Webhooks  # loaded for operators with webhooks only
        from steersman.webhook.http import WebhookServer

        server = self._webhook_server or WebhookServer
        return Webhooks(self.operator, self.settings, self._config, registrar, cache, runtime, tracing, server)

    def _make_elector(self, system: Client) -> LeaderElector | None:
        settings = self.settings
        if not settings.leader_elect or settings.dry_run:
            return None
        namespace, name = self._lease_key()
        self.elector = LeaderElector(
            ApiLease(system, name, namespace),
            name,
            self.identity,
            settings.lease_timing,
            now=self._now,
            rng=self._rng,
            clock=self._clock,
            ended_prefix=self.identity.rpartition("_")[0] + "_" if self._pod_locked else "",
        )
        return self.elector

    def _lock_pod(self, stack: AsyncExitStack) -> None:
        """Lock the Pod if its UID is known, and use an identity with the UID (L1)."""
        uid = self.settings.pod_uid
        if not uid or not self.settings.leader_elect:
            return
        if (lock := PodLock.acquire(uid, *self._lease_key())) is None:
            log.warning("pod_lock_unavailable", pod_uid=uid, effect="a restarted container waits for its own lease")
            return
        stack.callback(lock.close)
        self._pod_locked = True
        self.identity = new_identity(uid)

    def _lease_key(self) -> tuple[str, str]:
        """Return namespace and name of the lease."""
        namespace = self.settings.lease_namespace or self._config.namespace
        return namespace, self.settings.lease_name or self.operator.name

    def _make_client(self, elector: LeaderElector | None, tracing: Tracing | None) -> Client:
        transport = self._make_transport(self._config)
        if elector is not None:
            transport = GatedTransport(transport, elector.gate)
        if tracing is not None:
            transport = TracedTransport(transport, tracing)
        if self.settings.dry_run:
            transport = DryRunTransport(transport)
        return Client(
            self._config,
            transport=transport,
            field_manager=self.operator.field_manager,
            gate=elector.gate if elector is not None else None,
            rng=self._rng,
            now=self._now,
        )


def _impersonating(config: Config, settings: Settings) -> Config:
    if not settings.impersonate_user:
        return config
    return replace(config, impersonate=Impersonation(settings.impersonate_user, groups=settings.impersonate_groups))
