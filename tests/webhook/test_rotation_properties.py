"""Any interleaving of replicas that sleep, crash and read late, under clocks that jump: API servers can always verify.

The world is a Secret, some configurations, API servers that learn of a configuration late, and replicas. Each
replica's look is cut into its reads and writes, so that anything may happen between two of them.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from steersman.webhook.rotation import (
    Create,
    Held,
    Issuer,
    Publish,
    Renew,
    Resign,
    Restore,
    Retire,
    Retired,
    Seen,
    Shown,
    Terms,
    Wait,
    decide,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = frozenset({"web.svc"})
TERMS = Terms(
    authority_life=timedelta(hours=30),
    serving_life=timedelta(hours=3),
    settle=timedelta(minutes=10),
    skew=timedelta(minutes=5),
)
LATE = timedelta(minutes=9)
"""How late replicas and API servers learn of a change, at most; less than the settling time."""


@dataclass
class Replica:
    """A process: what it shows, and how far its present look has come."""

    shown: tuple[str, timedelta] | None = None  # the issuer, and when that was read
    remembers: Held | None = None
    clock: timedelta = timedelta(0)  # the wall clock's fault
    configurations: list[tuple[int, frozenset[str]]] | None = None
    read: tuple[int, Held | None] | None = None
    held: tuple[str, timedelta] = ("", timedelta(0))
    carried: tuple[str, timedelta] | None = None
    injected: int = 0


@dataclass
class World:
    time: timedelta = timedelta(0)
    version: int = 0
    held: Held | None = None
    history: list[tuple[timedelta, Held | None]] = field(default_factory=list)
    bundles: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    learned: list[list[tuple[timedelta, frozenset[str]]]] = field(default_factory=list)
    made: int = 0


class Rotation(RuleBasedStateMachine):
    @initialize(replicas=st.integers(1, 4), configurations=st.integers(1, 3))
    def begin(self, replicas, configurations):
        self.world = World()
        self.world.bundles = [(0, frozenset())] * configurations
        self.world.learned = [[] for _ in range(configurations)]
        self.replicas = [Replica() for _ in range(replicas)]
        self.asked = False

    # What happens around.

    @rule(minutes=st.sampled_from([1, 3, 9]))
    def time_passes(self, minutes):
        """Replicas that are alive read the Secret at least every nine minutes."""
        self.world.time += timedelta(minutes=minutes)
        for replica in self.replicas:
            if replica.shown is not None and self.world.time - replica.shown[1] > LATE:
                self._adopt(replica, self.world.held)

    @rule(hours=st.sampled_from([1, 2, 5, 12]))
    def a_long_quiet_time_passes(self, hours):
        for _ in range(hours * 12):
            self.time_passes(minutes=5)

    @rule(which=st.integers(0, 9), hours=st.sampled_from([-2000, -3, 0, 1, 3, 40, 9000]))
    def a_clock_jumps(self, which, hours):
        self._pick(which).clock = timedelta(hours=hours)

    @rule(which=st.integers(0, 9))
    def a_replica_crashes(self, which):
        self.replicas[which % len(self.replicas)] = Replica()

    @rule()
    def somebody_asks_for_a_new_authority(self):
        self.asked = True

    # One look of a replica, in pieces.

    @rule(which=st.integers(0, 9))
    def it_reads_the_configurations(self, which):
        self._pick(which).configurations = list(self.world.bundles)

    @rule(which=st.integers(0, 9))
    def it_reads_the_secret(self, which):
        replica = self._pick(which)
        if replica.configurations is None:
            return
        replica.read, replica.injected = (self.world.version, self.world.held), 0
        if self.world.held is not None:
            self._adopt(replica, self.world.held)

    @rule(which=st.integers(0, 9))
    def it_injects_into_the_next_configuration(self, which):
        replica = self._pick(which)
        if replica.read is None or replica.read[1] is None or replica.injected >= len(self.world.bundles):
            return
        index, replica.injected = replica.injected, replica.injected + 1
        version, _ = replica.configurations[index]
        if version == self.world.bundles[index][0] and self.world.bundles[index][1] != replica.read[1].trusted:
            self.world.bundles[index] = (version + 1, replica.read[1].trusted)
            self.world.learned[index].append((self.world.time, replica.read[1].trusted))

    @rule(which=st.integers(0, 9))
    def it_takes_a_step(self, which):
        replica = self._pick(which)
        if replica.read is None or (replica.injected < len(self.world.bundles) and replica.read[1] is not None):
            return
        (version, held), replica.read = replica.read, None
        configurations, replica.configurations = replica.configurations, None
        now = START + self.world.time + replica.clock
        action = decide(held, self._seen(replica, held, configurations, now), HOSTS, TERMS)
        if version != self.world.version:
            return  # a conflict
        after = self._after(held, action, now, replica)
        if after is not None and after != held:
            self.world.version += 1
            self.world.held = after
            self._adopt(replica, after)
            if isinstance(action, Publish):
                self.asked = False

    @rule(which=st.integers(0, 9), looks=st.integers(1, 6))
    def it_works_undisturbed(self, which, looks):
        for _ in range(looks):
            self.it_reads_the_configurations(which)
            self.it_reads_the_secret(which)
            for _ in self.world.bundles:
                self.it_injects_into_the_next_configuration(which)
            self.it_takes_a_step(which)
            self.time_passes(minutes=3)

    @rule(which=st.integers(0, 9), others=st.integers(0, 9), looks=st.integers(6, 9))
    def it_reads_and_sleeps_while_another_rotates(self, which, others, looks):
        self.it_reads_the_configurations(which)
        self.it_reads_the_secret(which)
        self.asked = True
        self.it_works_undisturbed(others, looks)
        for _ in self.world.bundles:
            self.it_injects_into_the_next_configuration(which)
        self.it_takes_a_step(which)

    @rule(which=st.integers(0, 9), hours=st.sampled_from([3, 4]), looks=st.integers(1, 5))
    def one_whose_clock_is_ahead_takes_over(self, which, hours, looks):
        self.replicas[which % len(self.replicas)] = Replica(clock=timedelta(hours=hours))
        for _ in range(looks):
            self.it_reads_the_configurations(which)
            self.it_reads_the_secret(which)
            for _ in self.world.bundles:
                self.it_injects_into_the_next_configuration(which)
            self.it_takes_a_step(which)

    # What must hold.

    @precondition(lambda self: hasattr(self, "world"))
    @invariant()
    def what_is_shown_verifies_wherever_a_bundle_is(self):
        for bundles in self.world.learned:
            for bundle in self._known(bundles):
                for replica in self.replicas:
                    if replica.shown is not None:
                        assert replica.shown[0] in bundle, (replica.shown, bundle, self.world.held)

    @precondition(lambda self: hasattr(self, "world"))
    @invariant()
    def a_bundle_stays_small(self):
        assert self.world.held is None or len(self.world.held.trusted) <= 8

    # Parts.

    def _pick(self, which):
        return self.replicas[which % len(self.replicas)]

    def _adopt(self, replica, held):
        replica.remembers = held
        replica.shown = (held.shown.issuer, self.world.time)

    def _known(self, bundles):
        """What API servers may believe a configuration carries: all that it has carried in the last minutes."""
        known = [bundle for when, bundle in bundles if self.world.time - when <= LATE]
        before = [bundle for when, bundle in bundles if self.world.time - when > LATE]
        return [*before[-1:], *known]

    def _seen(self, replica, held, configurations, now):
        time = self.world.time
        if held is not None and replica.held[0] != held.authority.id:
            replica.held = (held.authority.id, time)
        carried = None
        if held is not None and held.successor is not None:
            if not all(bundle >= held.trusted for _, bundle in configurations):
                replica.carried = None
            elif replica.carried is None or replica.carried[0] != held.successor.id:
                replica.carried = (held.successor.id, time)
            carried = time - replica.carried[1] if replica.carried else None
        else:
            replica.carried = None
        return Seen(now, carried, time - replica.held[1], self.asked, replica.remembers is not None)

    def _after(self, held, action, now, replica):
        match action:
            case Create():
                issuer = self._issuer(now)
                return Held(issuer, self._sign(issuer, now))
            case Restore():
                return replica.remembers
            case Renew():
                return Held(held.authority, self._sign(held.authority, now), held.successor, held.retired)
            case Publish():
                return Held(held.authority, held.shown, self._issuer(now), held.retired)
            case Resign(until):
                retired = (*held.retired, Retired(held.authority.id, until))
                return Held(held.successor, self._sign(held.successor, now), None, retired)
            case Retire(ids):
                kept = tuple(r for r in held.retired if r.id not in ids)
                return Held(held.authority, held.shown, held.successor, kept)
            case Wait():
                return None

    def _issuer(self, now):
        self.world.made += 1
        return Issuer(f"ca-{self.world.made}", now + TERMS.authority_life)

    def _sign(self, issuer, now):
        return Shown(issuer.id, min(now + TERMS.serving_life, issuer.not_after), HOSTS)


TestRotation = Rotation.TestCase
TestRotation.settings = settings(
    max_examples=80, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
