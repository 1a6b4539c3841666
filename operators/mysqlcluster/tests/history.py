"""A history of writes on real servers under faults, and the checker of it.

Several writers insert unique numbers on the primary of the operator's stored state. Each attempt is
`ok`, `failed` (the server has not committed it) or `unknown`. After healing, every member is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import aiomysql
from msgspec.structs import replace

from mysqlcluster import server_settings
from mysqlcluster.actions import Action, CreateAccounts, SetSource
from mysqlcluster.agent.client import ActionRefusedError, AgentClient, AgentUnreachableError
from mysqlcluster.agents import observe
from mysqlcluster.engines import engine_of
from mysqlcluster.gtid import GtidSet
from mysqlcluster.machine import ClusterState, Policy, Step, decide
from mysqlcluster.observation import MemberState, Observation

from .members import REVISION, Members, application, run

ATTEMPT_SECONDS = 3.0
EQUAL_SECONDS = 10.0
"""Time in which all members must have the same numbers after the last writes."""
WAIT_SECONDS = 300.0
"""Time limit of a condition. On a busy machine a copy of the data, or the start of a server, takes minutes, and a full
volume stops a server for up to a minute after space is free."""
READ_ONLY_ERROR = 1290
KEPT_SECONDS = 10.0


def policy(members: Members, **more: Any) -> Policy:
    """Return the policy of a cluster of these members, with a short detection and no pause between failovers."""
    return Policy(
        tuple(members.names),
        detection_seconds=1.0,
        min_interval_seconds=0.0,
        max_ack_count=engine_of(members.flavor).max_ack_count,
        settings=tuple(sorted(members.server_settings.items())),
        settings_revision=server_settings.revision(members.server_settings),
        **more,
    )


async def wait_until(holds: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: It does not hold in time; the message is `what`.
    """
    try:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - real processes have no event
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(what) from None


class Outcome(Enum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Attempt:
    """One write: its number, its member, its outcome, and the times of the request and of the response."""

    number: int
    member: str
    outcome: Outcome
    answered: float
    began: float = 0.0


@dataclass
class History:
    attempts: list[Attempt] = field(default_factory=list)

    def numbers(self, *outcomes: Outcome) -> set[int]:
        return {attempt.number for attempt in self.attempts if attempt.outcome in outcomes}

    def gap_after(self, instant: float) -> float:
        """Return the seconds from a time to the first write that was acknowledged after it."""
        return min(a.answered for a in self.attempts if a.outcome is Outcome.OK and a.answered > instant) - instant


def problems(history: History, final: dict[str, set[int]]) -> list[str]:
    """Return the violations in a history and the final reads of all members; empty for a correct cluster."""
    found: list[str] = []
    acknowledged = history.numbers(Outcome.OK)
    possible = acknowledged | history.numbers(Outcome.UNKNOWN)
    for member, numbers in sorted(final.items()):
        if lost := acknowledged - numbers:
            found.append(f"{member} lost {len(lost)} acknowledged writes: {sorted(lost)[:5]}")
        if phantoms := numbers - possible:
            found.append(f"{member} has {len(phantoms)} writes that failed or never were: {sorted(phantoms)[:5]}")
    if len({frozenset(numbers) for numbers in final.values()}) > 1:
        found.append(f"the members differ: { {member: len(numbers) for member, numbers in final.items()} }")
    return found


@dataclass(frozen=True)
class Term:
    """The time in which a member may acknowledge commits; it ends when the promotion of another member is stored."""

    member: str
    began: float


def overlaps(history: History, terms: Sequence[Term]) -> list[str]:
    """Return the acknowledgements of members outside of their terms: then two members acknowledged at the same time."""
    ends = [later.began for later in terms[1:]] + [math.inf]
    found: list[str] = []
    for each in history.attempts:
        allowed = any(
            term.member == each.member and term.began <= each.answered and each.began <= end
            for term, end in zip(terms, ends, strict=True)
        )
        if each.outcome is Outcome.OK and not allowed:
            found.append(f"{each.member} acknowledged write {each.number} while another member was the primary")
    return found


class StoredCluster:
    """The object of the cluster: its policy, and the stored state with an optimistic lock, as the API server has it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.state = ClusterState()
        self.version = 0
        self.conflicts = 0
        self.terms: list[Term] = []

    def write(self, read: int, state: ClusterState) -> bool:
        """Store a state unless another one was stored since version `read`."""
        if read != self.version:
            self.conflicts += 1
            return False
        self.state, self.version = state, self.version + 1
        promoted = state.transition.target if state.transition and state.transition.step is Step.PROMOTE else ""
        if promoted and (not self.terms or self.terms[-1].member != promoted):
            self.terms.append(Term(promoted, time.monotonic()))
        return True


class Loop:
    """The operator's loop around `decide`. It can be killed, restarted and paused; several can run at the same time."""

    def __init__(
        self, members: Members, client: AgentClient, policy: Policy, cluster: StoredCluster | None = None
    ) -> None:
        self.members = members
        self.client = client
        self.cluster = cluster or StoredCluster(policy)
        self.notices: list[str] = []
        self.refused: list[str] = []
        self.running = asyncio.Event()
        self.running.set()
        self._task: asyncio.Task[None] | None = None

    @property
    def policy(self) -> Policy:
        return self.cluster.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.cluster.policy = policy

    @property
    def stored(self) -> ClusterState:
        return self.cluster.state

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def kill(self) -> None:
        """Cancel the loop at any point; the agents finish actions in progress."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def another(self) -> Loop:
        """Return a second operator of the same cluster."""
        return Loop(self.members, self.client, self.policy, self.cluster)

    async def _run(self) -> None:
        while True:
            version, state, policy = self.cluster.version, self.cluster.state, self.policy
            decision = decide(policy, state, await self.observe())
            await self.running.wait()  # a paused operator performs an old decision when it resumes
            if decision.store is not None:
                if self.cluster.write(version, decision.store):
                    self.notices += [notice.reason for notice in decision.notices]
                continue
            await asyncio.gather(*map(self._perform, decision.actions))
            if not decision.actions:
                await asyncio.sleep(min(decision.after, 0.2))

    async def observe(self) -> Observation:
        names = tuple(dict.fromkeys((*self.policy.members, *self.stored.quorum.members)))
        return await observe(self.client, names, self.stored, time.time())

    async def _perform(self, action: Action) -> None:
        if isinstance(action, SetSource):  # on loopback, members have one host and different ports
            action = replace(action, host="127.0.0.1", port=self.members.server_ports[action.source])
        with contextlib.suppress(AgentUnreachableError):
            try:
                await self.client.act(action)
            except ActionRefusedError as problem:
                self.refused.append(str(problem))

    async def until_healthy(self, seconds: float = WAIT_SECONDS, *, writing: bool = False) -> ClusterState:
        """Wait until every member follows the primary and is complete, and nothing is in progress.

        During a change of the quorum, a failover may need every member, so that a fault then stops the writes.

        Args:
            seconds: Time limit.
            writing: Whether clients write meanwhile. Then members are rarely equal, and each must have executed what
                the primary had executed in the observation before.
        """
        seen: Observation | None = None
        former: GtidSet | None = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    seen = await self.observe()
                    primary = seen.get(self.stored.primary) if self.stored.primary else None
                    if primary is not None and self._is_healthy(seen, primary):
                        if all(each.executed == primary.executed for each in seen.members):
                            return self.stored
                        if writing and former and all(each.executed.contains(former) for each in seen.members):
                            return self.stored
                    former = primary.executed if primary is not None else None
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"the cluster did not heal: {self.stored}\n{seen}\n{self.notices}") from None

    async def heal(self, seconds: float = WAIT_SECONDS, *, writing: bool = False) -> ClusterState:
        """Wait as `until_healthy` does, and clone members with errant transactions again.

        A lost primary may have logged transactions that no replica acknowledged, and that were not acknowledged to
        clients. With `errantPolicy: Quarantine` such a member waits for a decision of the user, which this method
        makes.
        """
        self.policy = replace(self.policy, reclone=True)
        return await self.until_healthy(seconds, writing=writing)

    def _is_healthy(self, seen: Observation, primary: MemberState) -> bool:
        state = self.stored
        acks = self.policy.acks(len(self.policy.members))
        wanted = set(state.quorum.members) == set(self.policy.members) and state.quorum.acks == acks
        if state.transition is not None or state.changing or not wanted:
            return False
        return (
            not primary.read_only
            and primary.ack_count == acks
            and all(
                member.follows(state.primary, state.epoch) and member.complete
                for member in seen.members
                if member.name != state.primary
            )
        )


class Writers:
    """Tasks that each write one unique number at a time to the primary of the stored state.

    The first task goes on with the member of its last acknowledgement for some seconds, as a client without knowledge
    of the failover does: a former primary must not acknowledge its writes.

    Args:
        loop: The operator.
        count: Number of tasks.
        kept_seconds: Time for which the first task goes on with a member that no longer acknowledges its writes.
    """

    def __init__(self, loop: Loop, count: int, *, kept_seconds: float = KEPT_SECONDS) -> None:
        self.history = History()
        self._loop = loop
        self._kept_seconds = kept_seconds
        self._numbers = itertools.count(1)
        self._tasks = [asyncio.create_task(self._write(keeps=number == 0)) for number in range(count)]

    async def wait_acknowledged(self, more: int = 20) -> None:
        """Wait until more writes are acknowledged."""
        wanted = len(self.history.numbers(Outcome.OK)) + more
        await wait_until(lambda: len(self.history.numbers(Outcome.OK)) >= wanted, "no write is acknowledged")

    async def stop(self) -> History:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return self.history

    async def _write(self, *, keeps: bool) -> None:
        member, kept_until = self._loop.stored.primary, time.monotonic() + self._kept_seconds
        while True:
            if not keeps or time.monotonic() > kept_until:
                member = self._loop.stored.primary
            try:
                async with asyncio.timeout(ATTEMPT_SECONDS), application(self._loop.members, member) as connection:
                    while keeps or member == self._loop.stored.primary:
                        if await self._attempt(connection, member) is not Outcome.OK:
                            break
                        kept_until = time.monotonic() + self._kept_seconds
            except (aiomysql.Error, OSError, TimeoutError):
                pass
            await asyncio.sleep(0.05)

    async def _attempt(self, connection: Any, member: str) -> Outcome:
        number, began = next(self._numbers), time.monotonic()
        outcome = Outcome.UNKNOWN
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                await run(connection, "INSERT INTO items VALUES (%s)", number)
            outcome = Outcome.OK
        except aiomysql.Error as problem:
            if problem.args and problem.args[0] == READ_ONLY_ERROR:
                outcome = Outcome.FAILED
        except (OSError, TimeoutError):
            pass
        finally:
            self.history.attempts.append(Attempt(number, member, outcome, time.monotonic(), began))
        return outcome


async def read_all(members: Members, names: Iterable[str]) -> dict[str, set[int]]:
    """Return the numbers that each member has: when all have the same, or after some seconds.

    A busy server may execute statements of clients that have disconnected while the members are read one by one.
    """
    names, deadline = tuple(names), time.monotonic() + EQUAL_SECONDS
    while True:
        found: dict[str, set[int]] = {}
        for name in names:
            async with application(members, name) as connection:
                found[name] = {row[0] for row in await run(connection, "SELECT id FROM items")}
        if len({frozenset(numbers) for numbers in found.values()}) == 1 or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.5)


class Faults:
    """Faults that a seed chooses, in sequence; all are healed before the run ends."""

    def __init__(self, loop: Loop, seed: int) -> None:
        self._loop = loop
        self._random = random.Random(seed)
        self.done: list[str] = []

    async def inject(self) -> None:
        """Inject one fault of a member and, in most cases, one of the operator; wait, and heal both."""
        members, chance = self._loop.members, self._random
        victim = chance.choice([self._loop.stored.primary, chance.choice(members.names)])
        kind = chance.choice(["kill", "kill_server", "pause", "lose_volume"])
        operator = chance.choice(["", "killed", "second", "paused"])
        if kind == "lose_volume":
            # With one acknowledgement, the loss of a volume and of a relay log can lose the only copies of a write.
            await self._loop.heal(writing=True)
        self.done.append(f"{kind} {victim}{f', operator {operator}' if operator else ''}")
        async with self._operator(operator):
            match kind:
                case "kill":
                    members.kill(victim)
                case "kill_server":
                    members.kill_server(victim)
                case "pause":
                    members.pause(victim)
                case _:
                    members.lose_volume(victim)
            await asyncio.sleep(chance.uniform(0.5, 6))
        match kind:
            case "pause":
                members.resume(victim)
            case "kill" | "lose_volume":
                members.start(victim)
            case _:
                pass
        if kind == "lose_volume":
            await self._loop.heal(writing=True)

    @contextlib.asynccontextmanager
    async def _operator(self, fault: str) -> AsyncGenerator[None]:
        """Let a fault of the operator begin with the block; it ends with the block or earlier."""
        loop, delay = self._loop, self._random.uniform(0, 3)
        if fault in ("second", "paused"):
            other = loop.another()
            if fault == "paused":
                loop.running.clear()
            other.start()
            try:
                yield
            finally:
                loop.running.set()  # the paused operator performs its old decision while the other one runs
                await asyncio.sleep(0.5)
                await other.kill()
                loop.notices += other.notices
            return
        if fault == "killed":
            async with asyncio.TaskGroup() as group:
                group.create_task(self._restart(delay))
                yield
            return
        yield

    async def _restart(self, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._loop.kill()
        self._loop.start()


@dataclass(frozen=True)
class SeedResult:
    """The outcome of one seed; `problems` and `unhealed` are empty for a correct cluster."""

    seed: int
    faults: list[str]
    acknowledged: int
    unknown: int
    problems: list[str]
    longest_gap: float
    """The longest time between two acknowledged writes, in seconds."""
    unhealed: str = ""
    """Why the cluster did not heal; then the members were not read, and `problems` says nothing."""


async def run_seed(members: Members, seed: int, *, faults: int = 3, writers: int = 4) -> SeedResult:
    """Write before, during and after the faults of a seed, let the cluster heal, and read every member."""
    found: list[str] = []
    unhealed = ""
    async with running(members, policy(members)) as loop:
        working = Writers(loop, writers)
        injected = Faults(loop, seed)
        try:
            await working.wait_acknowledged()
            for _ in range(faults):
                await injected.inject()
            await loop.heal(writing=True)
            await working.wait_acknowledged()
            history = await working.stop()
            await loop.until_healthy()
            found = problems(history, await read_all(members, members.names)) + overlaps(history, loop.cluster.terms)
        except AssertionError as problem:
            history = await working.stop()
            unhealed = str(problem)
    times = sorted(each.answered for each in history.attempts if each.outcome is Outcome.OK)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    acknowledged, unknown = (len(history.numbers(outcome)) for outcome in (Outcome.OK, Outcome.UNKNOWN))
    return SeedResult(seed, injected.done, acknowledged, unknown, found, max(gaps, default=0.0), unhealed)


@contextlib.asynccontextmanager
async def running(members: Members, policy: Policy) -> AsyncGenerator[Loop]:
    """Run a cluster with the operator's loop, the accounts and the table of the writers."""
    async with members.client() as client:
        loop = Loop(members, client, policy)
        loop.start()
        try:
            await prepare(loop)
            yield loop
        finally:
            await loop.kill()


async def prepare(loop: Loop) -> None:
    """Create accounts and table when there is a primary, and wait until the cluster is healthy."""
    await wait_until(lambda: loop.stored.primary and loop.stored.transition is None, "no member became the primary")
    state = loop.stored
    await loop.client.act(CreateAccounts(member=state.primary, epoch=state.epoch, revision=REVISION))
    async with application(loop.members, state.primary) as connection:
        await run(connection, "CREATE TABLE items (id BIGINT PRIMARY KEY)")
    await loop.until_healthy()
