"""Leader election on virtual time: candidates with unrelated clocks, slow and broken lines, and one server."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steersman.client.errors import AlreadyExists, Conflict, ConnectError, NotFound
from steersman.client.status import Status
from steersman.operator.leaderelection.elector import LeaderElector, LeadershipLostError, NotLeaderError
from steersman.operator.leaderelection.pod_lock import new_identity
from steersman.operator.leaderelection.state import LeaseRecord, LeaseTiming, Phase
from steersman.telemetry.registry import REGISTRY
from steersman.testing import virtual_time


@dataclass
class Server:
    """The stored Lease; writes are compare-and-swap on `version`, as in the API server."""

    record: LeaseRecord | None = None
    revision: int = 0
    history: list[tuple[float, str]] = field(default_factory=list)

    def store(self, record: LeaseRecord) -> LeaseRecord:
        self.revision += 1
        self.record = msgspec.structs.replace(record, version=str(self.revision))
        self.history.append((asyncio.get_running_loop().time(), record.holder))
        return self.record


@dataclass
class Line:
    """One candidate's way to the server: may be slow both ways, and may be cut."""

    server: Server
    there: float = 0.0
    back: float = 0.0
    cut: bool = False
    requests: int = 0

    async def read(self) -> LeaseRecord | None:
        return await self._call(lambda: self.server.record)

    async def create(self, record: LeaseRecord) -> LeaseRecord:
        def create() -> LeaseRecord:
            if self.server.record is not None:
                raise failure(AlreadyExists, 409, "AlreadyExists")
            return self.server.store(record)

        return await self._call(create)

    async def write(self, record: LeaseRecord) -> LeaseRecord:
        def write() -> LeaseRecord:
            if self.server.record is None:
                raise failure(NotFound, 404, "NotFound")
            if record.version != self.server.record.version:
                raise failure(Conflict, 409, "Conflict")
            return self.server.store(record)

        return await self._call(write)

    async def _call(self, work):
        self.requests += 1
        await asyncio.sleep(self.there)
        if self.cut:
            raise ConnectError("connection refused")
        result = work()
        await asyncio.sleep(self.back)
        if self.cut:
            raise ConnectError("connection lost")
        return result


def failure(kind, code, reason):
    return kind(Status(code=code, reason=reason, message=reason))


@dataclass
class Pod:
    """The processes of one Pod, of which at most one holds the Pod's lock; the kernel frees it when that one ends."""

    name: str
    holder: str = ""
    started: int = 0

    def start(self, server, **more):
        """Start a process; only the one with the lock knows that its predecessors have ended."""
        self.started += 1
        name = f"{self.name}_{self.started}"
        locked = not self.holder
        if locked:
            self.holder = name
        return Replica(server, name if locked else f"unlocked_{name}", pod=self, locked=locked, **more)


@dataclass
class Replica:
    """A process: seeks the lease, holds it, and tries to write all the time, as reconciles would."""

    server: Server
    name: str
    pod: Pod | None = None
    locked: bool = False
    skew: timedelta = timedelta()
    clock_offset: float = 0.0
    clock_rate: float = 1.0
    timing: LeaseTiming = field(default_factory=LeaseTiming)
    seed: int = 0
    line: Line = field(init=False)
    elector: LeaderElector = field(init=False)
    led_from: float | None = None
    ended: str = ""

    def __post_init__(self):
        self.line = Line(self.server)
        self.elector = LeaderElector(
            self.line,
            "op",
            self.name,
            self.timing,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC) + self.skew,
            rng=random.Random(self.seed),
            clock=lambda: asyncio.get_running_loop().time() * self.clock_rate + self.clock_offset,
            ended_prefix=f"{self.pod.name}_" if self.pod is not None and self.locked else "",
        )

    async def live(self):
        await self.elector.acquire()
        self.led_from = asyncio.get_running_loop().time()
        try:
            await self.elector.hold()
        except LeadershipLostError as lost:
            self.ended = str(lost)

    async def write_all_the_time(self, log, pause=0.2):
        while True:
            try:
                self.elector.gate.check("PATCH", "/api/v1/namespaces/x/configmaps/y")
                log.append((asyncio.get_running_loop().time(), self.name))
            except NotLeaderError:
                pass
            await asyncio.sleep(pause)

    async def die(self, *tasks):
        """End at any moment, as by SIGKILL: nothing of it runs on, and the kernel frees the Pod's lock."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.pod is not None and self.locked:
            self.pod.holder = ""

    async def shut_down(self, task):
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self.elector.release()


@asynccontextmanager
async def running(*replicas, log=None):
    tasks = [asyncio.create_task(r.live()) for r in replicas]
    writers = [asyncio.create_task(r.write_all_the_time(log)) for r in replicas] if log is not None else []
    try:
        yield tasks
    finally:
        for task in (*tasks, *writers):
            task.cancel()
        await asyncio.gather(*tasks, *writers, return_exceptions=True)


async def until(condition, limit=120.0):
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit
    while not condition():
        assert loop.time() < deadline, "it never came to that"
        await asyncio.sleep(0.05)
    return loop.time()


def leaders(*replicas):
    return [r.name for r in replicas if r.elector.may_write()]


def assert_one_after_the_other(log):
    """The writes of each writer are one block: no writer writes after another has begun."""
    blocks = [name for n, (_, name) in enumerate(log) if n == 0 or log[n - 1][1] != name]
    assert len(blocks) == len(set(blocks)), f"writers overlap: {blocks}"


@virtual_time
async def test_the_first_candidate_leads_at_once_and_the_others_stand_by():
    server = Server()
    a, b, c = (Replica(server, name, seed=n) for n, name in enumerate("abc"))
    async with running(a, b, c):
        await asyncio.sleep(60)
        assert leaders(a, b, c) == ["a"]
        assert {b.elector.holder, c.elector.holder} == {"a"}
        assert server.record is not None
        assert server.record.transitions == 0


@virtual_time
async def test_a_leader_that_dies_is_followed_after_the_lease_duration_and_not_before():
    """L1: 15 s from the last renewal that was seen, plus at most one jittered look."""
    server = Server()
    a, b = Replica(server, "a"), Replica(server, "b", seed=1)
    async with running(a, b) as (life_of_a, _):
        await asyncio.sleep(30)
        life_of_a.cancel()
        last_renewal = server.history[-1][0]
        taken = await until(lambda: b.elector.leading)
        assert 15 <= taken - last_renewal < 15 + 2 * 2.2 + 0.3
        assert server.record is not None
        assert server.record.transitions == 1


@virtual_time
async def test_a_released_lease_is_taken_within_one_look():
    """L3: a clean shutdown hands over without waiting for the lease to expire."""
    server = Server()
    a, b = Replica(server, "a"), Replica(server, "b", seed=1)
    async with running(a, b) as (life_of_a, _):
        await asyncio.sleep(30)
        released = asyncio.get_running_loop().time()
        await a.shut_down(life_of_a)
        assert server.record is not None
        assert server.record.holder == ""
        assert not a.elector.may_write()
        assert await until(lambda: b.elector.leading) - released <= 2 * 2.2 + 0.1


@virtual_time
async def test_wrong_wall_clocks_change_nothing():
    """L1: the times in the record are words; a clock an hour off neither steals nor keeps a lease."""
    server = Server()
    a = Replica(server, "a", skew=timedelta(hours=-1))
    b = Replica(server, "b", skew=timedelta(hours=1), clock_offset=5e5, seed=1)
    log = []
    async with running(a, b, log=log) as (life_of_a, _):
        await asyncio.sleep(60)
        assert leaders(a, b) == ["a"]
        life_of_a.cancel()
        await until(lambda: b.elector.leading)
        assert_one_after_the_other(log)


@virtual_time
async def test_a_wall_clock_that_jumps_changes_nothing():
    """L1: an hour forth, two hours back: the leader remains leader, and no replica takes its lease."""
    server = Server()
    a, b = Replica(server, "a"), Replica(server, "b", seed=1)
    log = []
    async with running(a, b, log=log):
        for jump in (timedelta(hours=1), timedelta(hours=-2), timedelta(days=400), timedelta(0)):
            a.skew = jump
            await asyncio.sleep(20)
            assert leaders(a, b) == ["a"]
        assert {name for _, name in log} == {"a"}


@virtual_time
async def test_a_frozen_leader_finds_the_gate_shut_before_it_knows_that_it_was_deposed():
    """L2: the gate judges by the time of the write, so a stalled loop that wakes up too late sends nothing."""
    server = Server()
    a = Replica(server, "a")
    b = Replica(server, "b", seed=1)
    async with running(a, b) as (life_of_a, _):
        await asyncio.sleep(5)
        life_of_a.cancel()  # nothing of a runs any more, as when its process is stopped
        a.elector.gate.check("PATCH", "/x")
        await until(lambda: b.elector.leading)
        assert a.elector.state.phase is Phase.LEADING, "it has not learned anything"
        with pytest.raises(NotLeaderError, match="could not be renewed in time"):
            a.elector.gate.check("PATCH", "/x")
        with pytest.raises(LeadershipLostError, match="b holds the lease now"):
            await a.elector.hold()


@virtual_time
async def test_a_stalled_leader_that_nobody_followed_goes_on_after_one_successful_renewal():
    server = Server()
    a = Replica(server, "a")
    async with running(a) as (life_of_a,):
        await asyncio.sleep(5)
        life_of_a.cancel()
        await asyncio.sleep(60)
        assert not a.elector.may_write()
        holding = asyncio.create_task(a.elector.hold())
        await asyncio.sleep(2.1)
        assert a.elector.may_write()
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


@virtual_time
async def test_a_leader_without_a_server_stops_writing_at_the_renew_deadline_and_ends():
    """L2: after 10 s without a renewal the gate is closed and the process ends."""
    server = Server()
    a, b = Replica(server, "a"), Replica(server, "b", seed=1)
    log = []
    async with running(a, b, log=log) as (life_of_a, _):
        await asyncio.sleep(7)
        a.line.cut = True
        last = server.history[-1][0]
        await life_of_a
        assert "connection" in a.ended
        assert max(t for t, name in log if name == "a") < last + 10
        await until(lambda: b.elector.leading)
        await asyncio.sleep(5)
        assert_one_after_the_other(log)
        assert log[-1][1] == "b"


@virtual_time
async def test_an_outage_shorter_than_the_renew_deadline_is_ridden_out():
    server = Server()
    a, b = Replica(server, "a"), Replica(server, "b", seed=1)
    async with running(a, b):
        await asyncio.sleep(5)
        a.line.cut = b.line.cut = True
        await asyncio.sleep(7)
        a.line.cut = b.line.cut = False
        await asyncio.sleep(30)
        assert leaders(a, b) == ["a"]


@virtual_time
async def test_a_renewal_whose_answer_is_lost_does_not_lengthen_the_leaders_own_lease():
    server = Server()
    a = Replica(server, "a")
    async with running(a):
        await asyncio.sleep(5)
        held_from = a.elector.state.held_from
        a.line.back = 60.0
        await asyncio.sleep(6)
        assert server.history[-1][0] > held_from
        assert a.elector.state.held_from == held_from


@virtual_time
async def test_a_standby_survives_any_outage_and_leads_afterwards():
    server = Server()
    b = Replica(server, "b")
    b.line.cut = True
    async with running(b):
        await asyncio.sleep(600)
        assert not b.elector.leading
        b.line.cut = False
        await until(lambda: b.elector.leading, limit=5)


@virtual_time
async def test_a_standby_writes_nothing_and_says_who_leads():
    """L2: the gate refuses every write of a replica that does not lead, by name of the request and the leader."""
    server = Server()
    a, b = Replica(server, "a"), Replica(server, "b", seed=1)
    async with running(a, b):
        await asyncio.sleep(10)
        with pytest.raises(
            NotLeaderError, match=r"POST /apis/x was not sent: this replica is a standby; a holds the lease op"
        ):
            b.elector.gate.check("POST", "/apis/x")
        assert b.elector.gate.remaining() == 0
        assert 5 < a.elector.gate.remaining() <= 15


@virtual_time
async def test_a_release_that_fails_is_only_logged_and_the_gate_is_shut_all_the_same():
    server = Server()
    a = Replica(server, "a")
    async with running(a) as (life,):
        await asyncio.sleep(5)
        life.cancel()
        a.line.cut = True
        assert not await a.elector.release()
        assert not a.elector.may_write()


@virtual_time
async def test_a_renewal_that_was_cut_off_at_shutdown_does_not_keep_the_lease_from_being_released():
    server = Server()
    a = Replica(server, "a")
    async with running(a) as (life,):
        await asyncio.sleep(5)
        a.line.back = 3.0
        await until(lambda: server.record.version != a.elector.state.seen.version)
        a.line.back = 0.0
        await a.shut_down(life)
        assert server.record is not None
        assert server.record.holder == ""


@virtual_time
async def test_a_standby_never_releases_the_leaders_lease():
    server = Server()
    a, b = Replica(server, "a"), Replica(server, "b", seed=1)
    async with running(a, b) as (_, life_of_b):
        await asyncio.sleep(10)
        await b.shut_down(life_of_b)
        assert server.record.holder == "a"


@virtual_time
async def test_a_lease_deleted_under_the_leader_ends_its_leadership():
    server = Server()
    a = Replica(server, "a")
    async with running(a) as (life,):
        await asyncio.sleep(5)
        server.record = None
        await life
        assert a.ended == "the Lease was deleted"


@virtual_time
async def test_a_lease_left_by_another_tool_without_holder_is_taken_and_its_transition_counted():
    server = Server()
    server.record = LeaseRecord(holder="", duration=0, version="9", transitions=4)
    a = Replica(server, "a")
    async with running(a):
        await until(lambda: a.elector.leading, limit=1)
        assert server.record.transitions == 5


@virtual_time
async def test_the_metric_tells_who_leads():
    server = Server()
    a = Replica(server, "a")
    async with running(a) as (life,):
        await asyncio.sleep(1)
        assert REGISTRY.get_sample_value("leader_election_master_status", {"name": "op"}) == 1
        await a.shut_down(life)
        assert REGISTRY.get_sample_value("leader_election_master_status", {"name": "op"}) == 0


@virtual_time
async def test_renewals_cost_one_request_each():
    server = Server()
    a = Replica(server, "a")
    async with running(a):
        await asyncio.sleep(60)
        assert a.line.requests <= 2 + 30


@virtual_time
async def test_a_restarted_container_leads_at_once_and_a_standby_waits():
    """L1: the process after a crash takes the lease with its first look; another Pod's waits for its expiry."""
    server, pod = Server(), Pod("op-1")
    a, b = pod.start(server), Replica(server, "b", seed=1)
    async with running(a, b) as (life_of_a, _):
        await asyncio.sleep(30)
        await a.die(life_of_a)
        died = asyncio.get_running_loop().time()
        again = pod.start(server, seed=2)
        async with running(again):
            assert await until(lambda: again.elector.leading) - died <= 0.1
            await asyncio.sleep(60)
            assert leaders(a, b, again) == [again.name]


@virtual_time
async def test_a_second_process_of_a_pod_waits_while_the_first_one_is_alive():
    """L1: started by hand in the Pod of a frozen leader, a process is a candidate like one of another Pod."""
    server, pod = Server(), Pod("op-1")
    a = pod.start(server)
    async with running(a) as (life_of_a,):
        await asyncio.sleep(30)
        life_of_a.cancel()  # frozen: it holds the Pod's lock
        frozen = asyncio.get_running_loop().time()
        twin = pod.start(server, seed=2)
        async with running(twin):
            assert await until(lambda: twin.elector.leading) - frozen >= 15


def test_identities_differ_between_processes_of_one_host():
    """L1: the identity is host and random, so that a restarted process never takes an old lease for its own."""
    first, second = new_identity(), new_identity()
    assert first != second
    assert first.rsplit("_", 1)[0] == second.rsplit("_", 1)[0]


TROUBLE = st.lists(
    st.tuples(
        st.floats(0, 12),  # pause before
        st.integers(0, 2),  # whose line
        st.sampled_from(["cut", "mend", "slow there", "slow back", "fast", "freeze", "die", "stop"]),
        st.floats(0.1, 25),  # how slow
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    trouble=TROUBLE,
    rates=st.lists(st.floats(0.98, 1.02), min_size=3, max_size=3),
    offsets=st.lists(st.floats(0, 1e6), min_size=3, max_size=3),
)
def test_no_two_replicas_writes_ever_overlap(trouble, rates, offsets):
    """L2: whatever lines, clocks and processes do, one writer's last write comes before the next one's first."""

    @virtual_time
    async def story():
        server = Server()
        replicas = [
            Replica(server, name, clock_rate=rates[n], clock_offset=offsets[n], seed=n, skew=timedelta(hours=n))
            for n, name in enumerate("abc")
        ]
        log = []
        async with running(*replicas, log=log) as lives:
            for pause, who, what, how_long in trouble:
                await asyncio.sleep(pause)
                replica = replicas[who]
                match what:
                    case "cut":
                        replica.line.cut = True
                    case "mend":
                        replica.line.cut = False
                    case "slow there":
                        replica.line.there = how_long
                    case "slow back":
                        replica.line.back = how_long
                    case "fast":
                        replica.line.there = replica.line.back = 0.0
                    case "freeze" | "die":
                        lives[who].cancel()  # its writer continues, like a reconcile without knowledge of the loss
                    case "stop":
                        await replica.shut_down(lives[who])
            await asyncio.sleep(40)
        assert_one_after_the_other(log)

    story()


@dataclass
class Pods:
    """Two Pods, their living processes, and everything that any process has ever written."""

    rates: Iterator[float]
    server: Server = field(default_factory=Server)
    log: list[tuple[float, str]] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=lambda: [Pod("op-1"), Pod("op-2")])
    alive: list[list[tuple[Replica, asyncio.Task, asyncio.Task]]] = field(default_factory=lambda: [[], []])

    def start(self, which):
        pod = self.pods[which]
        replica = pod.start(self.server, clock_rate=next(self.rates, 1.0), clock_offset=1e5 * pod.started, seed=which)
        live = asyncio.create_task(replica.live())
        self.alive[which].append((replica, live, asyncio.create_task(replica.write_all_the_time(self.log))))

    async def do(self, what, which, how_long):
        """Do something to the oldest living process of a Pod."""
        if what == "start":
            self.start(which)
            return
        if not self.alive[which]:
            return
        replica, live, writer = self.alive[which][0]
        match what:
            case "kill":
                del self.alive[which][0]
                await replica.die(live, writer)
            case "freeze":
                live.cancel()  # its writer goes on, like a reconcile that runs while the election is stuck
            case "cut" | "mend":
                replica.line.cut = what == "cut"
            case "slow there":
                replica.line.there = how_long
            case "slow back":
                replica.line.back = how_long
            case _:
                replica.line.there = replica.line.back = 0.0

    async def end(self):
        for processes in self.alive:
            for replica, live, writer in processes:
                await replica.die(live, writer)


RESTARTS = st.lists(
    st.tuples(
        st.floats(0, 12),  # pause before
        st.sampled_from(["kill", "kill", "start", "start", "freeze", "cut", "mend", "slow there", "slow back", "fast"]),
        st.integers(0, 1),  # which Pod
        st.floats(0.1, 25),  # how slow
    ),
    max_size=16,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trouble=RESTARTS, rates=st.lists(st.floats(0.98, 1.02), min_size=16, max_size=16))
def test_no_two_processes_of_any_pods_write_at_once(trouble, rates):
    """L1, L2: processes end at any moment, others start in the same Pod before or after that; writes never overlap."""

    @virtual_time
    async def story():
        pods = Pods(iter(rates))
        pods.start(0)
        pods.start(1)
        for pause, what, which, how_long in trouble:
            await asyncio.sleep(pause)
            await pods.do(what, which, how_long)
        await asyncio.sleep(40)
        await pods.end()
        assert_one_after_the_other(pods.log)

    story()
