"""Simulates hours of a cluster in seconds: API server, controllers, nodes and an operator on one virtual-time loop.

    @simulated(seed=7)
    async def test_it(simulation: Simulation) -> None:
        app = simulation.operator("myapp.operator:operator")
        await simulation.apply(SAMPLE)
        await simulation.passes(hours=3)

A simulation has no sockets; random numbers come from one seed, and the clock advances only when no callback is ready.
So a seed reproduces a run with the same audit log, except for Secrets and uids of certificates. The API server calls
the operator's webhooks in the same loop; a handler that is a plain `def` runs in a thread, as usual.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from steersman.client import Client
from steersman.client.config import Config
from steersman.client.transport import Transport
from steersman.testing.cluster_objects import manifests_of
from steersman.testing.controlplane.audit import WRITES, AuditPolicy
from steersman.testing.faults import USER_AGENT, Faults
from steersman.testing.inprocess_webhooks import inprocess_server
from steersman.testing.loop import VirtualTimeLoop
from steersman.testing.rbac import identity
from steersman.testing.recording import Reconcile, Recorder, recorded
from steersman.testing.running import ObservedReplica, idle_settings, operator_of
from steersman.testing.waiting import eventually
from steersman_cluster.admission.webhook_calls import InProcessWebhook
from steersman_cluster.api.inprocess import InProcessTransport
from steersman_cluster.auth.audit_policy import Policy
from steersman_cluster.cluster import ADMIN, DevCluster, Options
from steersman_cluster.strategy import User

if TYPE_CHECKING:
    from steersman.operator.operator import Operator
    from steersman.operator.settings import Settings

__all__ = ["SimulatedOperator", "Simulation", "simulated"]

P = ParamSpec("P")
T = TypeVar("T")

_EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC).timestamp()


class SimulatedOperator:
    """An operator in a simulation. Created by `Simulation.operator`."""

    def __init__(
        self,
        simulation: Simulation,
        operator: Operator,
        settings: Settings,
        user: str,
        *,
        wrap: Callable[[InProcessTransport], Transport] = lambda transport: transport,
        recorder: Recorder | None = None,
    ) -> None:
        self.operator = operator
        """The operator, with its own functions."""
        self.user = user
        self.recorder = recorder or Recorder()
        self._stop = asyncio.Event()
        self._webhooks: dict[tuple[str, int], InProcessWebhook] = {}
        self._caller = simulation.cluster.server.admission.caller
        account = User(user, groups=("system:serviceaccounts", "system:authenticated"))
        server = simulation.cluster.server
        administrator = replace(simulation.cluster.config, context=ADMIN.name)

        def transport(config: Config) -> Transport:
            return wrap(InProcessTransport(server, ADMIN if config.context == ADMIN.name else account))

        self._replica = ObservedReplica(
            recorded(operator, self.recorder),
            simulation.cluster.config,
            settings,
            rng=simulation.rng,
            now=simulation.now,
            clock=asyncio.get_running_loop().time,
            transport=transport,
            registers_as=administrator,
            webhook_server=inprocess_server(server.admission.caller, self._webhooks),
        )
        self._task = asyncio.create_task(self._replica.run(self._stop), name=f"operator {operator.name}")

    @property
    def reconciles(self) -> list[Reconcile]:
        """The finished runs of its controllers."""
        return self.recorder.reconciles

    async def wait_ready(self, within: float = 60.0) -> None:
        """Wait until its controllers run."""
        await self._until(lambda: self._replica.missing, 0.0, within)

    async def wait_idle(self, quiet: float = 1.0, within: float = 3600.0) -> None:
        """Wait until nothing is queued or running, for `quiet` seconds of virtual time."""
        await self._until(lambda: self._replica.busy, quiet, within)

    async def _until(self, ask: Callable[[], list[str]], quiet: float, within: float) -> None:
        clock = asyncio.get_running_loop().time
        deadline, since, seen = clock() + within, clock(), -1
        while True:
            if self._task.done():
                self._task.result()
                raise AssertionError("the operator has ended")
            left = ask()
            if left or len(self.reconciles) != seen:
                since, seen = clock(), len(self.reconciles)
            if not left and clock() - since >= quiet:
                return
            assert clock() < deadline, f"after {within:g} s: {'; '.join(left)}"
            await asyncio.sleep(0.05)

    @property
    def identity(self) -> str:
        """The identity that its lease names."""
        return self._replica.identity

    @property
    def pending(self) -> list[str]:
        """The reasons why it is not idle: controllers that do not run yet, and work that waits or runs."""
        return self._replica.missing or self._replica.busy

    @property
    def retries_in(self) -> float:
        """Seconds until the next retry of a failed reconcile; infinity without one."""
        return self._replica.retries_in

    @property
    def scheduled(self) -> tuple[str, ...]:
        """The keys that it will reconcile later, with their controllers."""
        return self._replica.scheduled

    @property
    def standby(self) -> bool:
        """Whether it is ready and waits for the lease."""
        return self._replica.standby

    @property
    def leading(self) -> bool:
        """Whether it holds the lease, as far as it knows."""
        return self._replica.elector is not None and self._replica.elector.leading

    def disconnect_webhooks(self) -> None:
        """Refuse connections to its webhooks, as after a crash."""
        for address, handler in self._webhooks.items():
            if self._caller.in_process.get(address) is handler:
                del self._caller.in_process[address]

    @property
    def task(self) -> asyncio.Task[None]:
        """The task that runs it."""
        return self._task

    async def stop(self) -> None:
        """Shut the operator down gracefully. Idempotent; raises the exception that ended it."""
        self._stop.set()
        await self._task


class Simulation:
    """A cluster with virtual time and seeded randomness. Created by `simulated`, or by `start` on a virtual loop."""

    def __init__(self, cluster: DevCluster, rng: random.Random, faults: Faults) -> None:
        self.cluster = cluster
        self.rng = rng
        """The source of all random numbers; tests may use it, too."""
        self.faults = faults
        self.namespace = "default"
        self.client: Client = cluster.client(user_agent=USER_AGENT)
        """The client of the administrator."""
        self._operators: list[SimulatedOperator] = []

    @classmethod
    @asynccontextmanager
    async def start(cls, seed: int = 0, **options: Any) -> AsyncGenerator[Simulation]:
        """Start a simulation for a block; `options` are those of `steersman_cluster.cluster.Options`."""
        clock = asyncio.get_running_loop().time
        start = clock()

        def now() -> float:
            return _EPOCH + clock() - start

        rng, faults = random.Random(seed), Faults(seed)  # noqa: S311 - reproducible on purpose
        with _seeded(random.Random(rng.getrandbits(64))):  # noqa: S311 - see above
            async with cls._running(rng, faults, now, options) as simulation:
                yield simulation

    @classmethod
    @asynccontextmanager
    async def _running(
        cls, rng: random.Random, faults: Faults, now: Callable[[], float], options: Mapping[str, Any]
    ) -> AsyncGenerator[Simulation]:
        policy = Policy(json.loads(AuditPolicy().text()))
        values: dict[str, Any] = {"ready_after": 1.0, "audit": policy, **options, "listen": False}
        wanted = Options(**values)
        cluster = DevCluster(wanted, now=now, rng=rng)
        faults.intercept(cluster.server)
        simulation = cls(cluster, rng, faults)
        try:
            await cluster.open()
            yield simulation
        finally:
            for running in reversed(simulation._operators):
                await running.stop()
            await simulation.client.close()
            await cluster.close()

    def now(self) -> datetime:
        """The wall clock of the simulation, in UTC; it starts in 2030."""
        return datetime.fromtimestamp(self.cluster.server.now(), UTC)

    async def passes(self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0) -> None:
        """Advance the virtual time."""
        await asyncio.sleep(seconds + 60 * minutes + 3600 * hours)

    async def operator(
        self, what: Any, *, namespaces: tuple[str, ...] = (), settings: Mapping[str, Any] | None = None
    ) -> SimulatedOperator:
        """Run an operator as the ServiceAccount that it declares; its CRDs are applied first."""
        operator, wanted, user = await self.prepare(what, namespaces=namespaces, settings=settings)
        running = SimulatedOperator(self, operator, wanted, user)
        self._operators.append(running)
        await running.wait_ready()
        return running

    async def prepare(
        self, what: Any, *, namespaces: tuple[str, ...] = (), settings: Mapping[str, Any] | None = None
    ) -> tuple[Operator, Settings, str]:
        """Apply the CRDs and the roles of an operator; return it with the settings for a test and its user."""
        from steersman.manifests.config_directory import crds

        operator = operator_of(what)
        wanted = idle_settings(namespaces, self.namespace, settings or {})
        selected = wanted.namespace_selector is not None
        objects = identity(operator, self.namespace, namespaces=wanted.namespaces, namespace_selector=selected)
        await self.apply(*crds(operator), *objects)
        return operator, wanted, f"system:serviceaccount:{self.namespace}:{operator.name}"

    async def apply(self, *what: Path | str | Mapping[str, Any], namespace: str | None = None) -> None:
        """Apply files, text and objects as `Cluster.apply` does. Raises `AssertionError` for a refused object."""
        from steersman.manifest_files.apply import load

        manifests = [manifest for one in what for manifest in manifests_of(one)]
        place = namespace or self.namespace
        async for outcome in load(self.client, manifests, namespace=place, field_manager=USER_AGENT, force=True):
            assert outcome.action != "failed", f"{outcome.reference}: {outcome.error}"

    async def eventually(self, condition: Callable[[], Awaitable[T]], *, within: float = 600.0, what: str = "") -> T:
        """Wait for a condition as `eventually` does, on virtual time."""
        return await eventually(condition, within=within, what=what)

    def audit(self, *, user: str | None = None, writes: bool = False) -> list[str]:
        """Return the audit log as reproducible lines: time, user, request, and status code."""
        log = self.cluster.audit
        assert log is not None, "the simulation was started without an audit policy"
        return [
            f"{event['stageTimestamp']} {event['user']['username']} {event['verb']} {event['requestURI']} "
            f"{_code(event)}"
            for event in log.events(user=user)
            if not writes or event["verb"] in WRITES
        ]


def _code(event: Mapping[str, Any]) -> int:
    status: dict[str, Any] = event.get("responseStatus") or {}
    return int(status.get("code", 0))


@contextmanager
def _seeded(source: random.Random) -> Generator[None]:
    """Let generators without a seed, such as the jitter of a client, get one from `source`."""
    known, state = random.Random, random.getstate()

    class Seeded(known):  # type: ignore[misc, valid-type]
        def __init__(self, seed: Any = None) -> None:
            super().__init__(source.getrandbits(64) if seed is None else seed)

    random.seed(source.getrandbits(64))
    random.Random = Seeded  # type: ignore[misc]
    try:
        yield
    finally:
        random.Random = known  # type: ignore[misc]
        random.setstate(state)


def simulated(
    seed: int = 0, **options: Any
) -> Callable[[Callable[Concatenate[Simulation, P], Coroutine[Any, Any, T]]], Callable[P, T]]:
    """Run an `async def` test in a simulation, its first argument; the other parameters may be fixtures.

    The result is a plain function. Fails if the test leaves tasks behind, or when every task waits without a timer.
    """

    def decorate(test: Callable[Concatenate[Simulation, P], Coroutine[Any, Any, T]]) -> Callable[P, T]:
        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            async def guarded() -> T:
                async with Simulation.start(seed, **options) as simulation:
                    result = await test(simulation, *args, **kwargs)
                await asyncio.sleep(0)
                left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task() and not t.done()]
                assert not left, f"tasks left behind: {left}"
                return result

            with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                return runner.run(guarded())

        parameters = list(inspect.signature(test).parameters.values())[1:]
        # functools.wraps marks the coroutine function as the wrapped one; pytest must see a plain function.
        del run.__wrapped__  # type: ignore[attr-defined]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate
