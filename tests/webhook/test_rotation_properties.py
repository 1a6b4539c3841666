"""Any interleaving of replicas that sleep, crash and read late, under clocks that jump: API servers can always verify.

The model is a Secret, some configurations, API servers that learn of a configuration late, and replicas. Each
replica's look is cut into its reads and writes, so that anything may happen between two of them.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from steersman.webhook.rotation import (
    CertificateLifetimes,
    CertificateState,
    Create,
    Issuer,
    Observation,
    Publish,
    Renew,
    Resign,
    Restore,
    Retire,
    Retired,
    ServingCertificate,
    Wait,
    decide,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = frozenset({"web.svc"})
TERMS = CertificateLifetimes(
    authority_lifetime=timedelta(hours=30),
    serving_lifetime=timedelta(hours=3),
    propagation=timedelta(minutes=10),
    skew=timedelta(minutes=5),
)
LATE = timedelta(minutes=9)
"""The longest delay until replicas and API servers see a change; less than the settling time."""


@dataclass
class Replica:
    """A process: the certificate that it serves, and the progress of its current step."""

    serving: tuple[str, timedelta] | None = None  # the issuer, and when that was read
    remembers: CertificateState | None = None
    clock: timedelta = timedelta(0)  # the wall clock's fault
    configurations: list[tuple[int, frozenset[str]]] | None = None
    read: tuple[int, CertificateState | None] | None = None
    state: tuple[str, timedelta] = ("", timedelta(0))
    carried: tuple[str, timedelta] | None = None
    injected: int = 0


@dataclass
class ClusterModel:
    time: timedelta = timedelta(0)
    version: int = 0
    state: CertificateState | None = None
    history: list[tuple[timedelta, CertificateState | None]] = field(default_factory=list)
    bundles: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    learned: list[list[tuple[timedelta, frozenset[str]]]] = field(default_factory=list)
    made: int = 0


class Rotation(RuleBasedStateMachine):
    @initialize(replicas=st.integers(1, 4), configurations=st.integers(1, 3))
    def begin(self, replicas, configurations):
        self.model = ClusterModel()
        self.model.bundles = [(0, frozenset())] * configurations
        self.model.learned = [[] for _ in range(configurations)]
        self.replicas = [Replica() for _ in range(replicas)]
        self.asked = False

    # Events outside of the rotation.

    @rule(minutes=st.sampled_from([1, 3, 9]))
    def time_passes(self, minutes):
        """Replicas that are alive read the Secret at least every nine minutes."""
        self.model.time += timedelta(minutes=minutes)
        for replica in self.replicas:
            if replica.serving is not None and self.model.time - replica.serving[1] > LATE:
                self._adopt(replica, self.model.state)

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
        self._pick(which).configurations = list(self.model.bundles)

    @rule(which=st.integers(0, 9))
    def it_reads_the_secret(self, which):
        replica = self._pick(which)
        if replica.configurations is None:
            return
        replica.read, replica.injected = (self.model.version, self.model.state), 0
        if self.model.state is not None:
            self._adopt(replica, self.model.state)

    @rule(which=st.integers(0, 9))
    def it_injects_into_the_next_configuration(self, which):
        replica = self._pick(which)
        if replica.read is None or replica.read[1] is None or replica.injected >= len(self.model.bundles):
            return
        index, replica.injected = replica.injected, replica.injected + 1
        version, _ = replica.configurations[index]
        if version == self.model.bundles[index][0] and self.model.bundles[index][1] != replica.read[1].trusted:
            self.model.bundles[index] = (version + 1, replica.read[1].trusted)
            self.model.learned[index].append((self.model.time, replica.read[1].trusted))

    @rule(which=st.integers(0, 9))
    def it_takes_a_step(self, which):
        replica = self._pick(which)
        if replica.read is None or (replica.injected < len(self.model.bundles) and replica.read[1] is not None):
            return
        (version, state), replica.read = replica.read, None
        configurations, replica.configurations = replica.configurations, None
        now = START + self.model.time + replica.clock
        action = decide(state, self._seen(replica, state, configurations, now), HOSTS, TERMS)
        if version != self.model.version:
            return  # a conflict
        after = self._after(state, action, now, replica)
        if after is not None and after != state:
            self.model.version += 1
            self.model.state = after
            self._adopt(replica, after)
            if isinstance(action, Publish):
                self.asked = False

    @rule(which=st.integers(0, 9), looks=st.integers(1, 6))
    def it_works_undisturbed(self, which, looks):
        for _ in range(looks):
            self.it_reads_the_configurations(which)
            self.it_reads_the_secret(which)
            for _ in self.model.bundles:
                self.it_injects_into_the_next_configuration(which)
            self.it_takes_a_step(which)
            self.time_passes(minutes=3)

    @rule(which=st.integers(0, 9), others=st.integers(0, 9), looks=st.integers(6, 9))
    def it_reads_and_sleeps_while_another_rotates(self, which, others, looks):
        self.it_reads_the_configurations(which)
        self.it_reads_the_secret(which)
        self.asked = True
        self.it_works_undisturbed(others, looks)
        for _ in self.model.bundles:
            self.it_injects_into_the_next_configuration(which)
        self.it_takes_a_step(which)

    @rule(which=st.integers(0, 9), hours=st.sampled_from([3, 4]), looks=st.integers(1, 5))
    def one_whose_clock_is_ahead_takes_over(self, which, hours, looks):
        self.replicas[which % len(self.replicas)] = Replica(clock=timedelta(hours=hours))
        for _ in range(looks):
            self.it_reads_the_configurations(which)
            self.it_reads_the_secret(which)
            for _ in self.model.bundles:
                self.it_injects_into_the_next_configuration(which)
            self.it_takes_a_step(which)

    # What must hold.

    @precondition(lambda self: hasattr(self, "model"))
    @invariant()
    def what_is_shown_verifies_wherever_a_bundle_is(self):
        for bundles in self.model.learned:
            for bundle in self._known(bundles):
                for replica in self.replicas:
                    if replica.serving is not None:
                        assert replica.serving[0] in bundle, (replica.serving, bundle, self.model.state)

    @precondition(lambda self: hasattr(self, "model"))
    @invariant()
    def a_bundle_stays_small(self):
        assert self.model.state is None or len(self.model.state.trusted) <= 8

    # Parts.

    def _pick(self, which):
        return self.replicas[which % len(self.replicas)]

    def _adopt(self, replica, state):
        replica.remembers = state
        replica.serving = (state.serving.issuer, self.model.time)

    def _known(self, bundles):
        """Return the configurations that API servers may have cached: all of the last minutes."""
        known = [bundle for when, bundle in bundles if self.model.time - when <= LATE]
        before = [bundle for when, bundle in bundles if self.model.time - when > LATE]
        return [*before[-1:], *known]

    def _seen(self, replica, state, configurations, now):
        time = self.model.time
        if state is not None and replica.state[0] != state.authority.id:
            replica.state = (state.authority.id, time)
        carried = None
        if state is not None and state.successor is not None:
            if not all(bundle >= state.trusted for _, bundle in configurations):
                replica.carried = None
            elif replica.carried is None or replica.carried[0] != state.successor.id:
                replica.carried = (state.successor.id, time)
            carried = time - replica.carried[1] if replica.carried else None
        else:
            replica.carried = None
        return Observation(now, carried, time - replica.state[1], self.asked, replica.remembers is not None)

    def _after(self, state, action, now, replica):
        match action:
            case Create():
                issuer = self._issuer(now)
                return CertificateState(issuer, self._sign(issuer, now))
            case Restore():
                return replica.remembers
            case Renew():
                return CertificateState(
                    state.authority, self._sign(state.authority, now), state.successor, state.retired
                )
            case Publish():
                return CertificateState(state.authority, state.serving, self._issuer(now), state.retired)
            case Resign(until):
                retired = (*state.retired, Retired(state.authority.id, until))
                return CertificateState(state.successor, self._sign(state.successor, now), None, retired)
            case Retire(ids):
                kept = tuple(r for r in state.retired if r.id not in ids)
                return CertificateState(state.authority, state.serving, state.successor, kept)
            case Wait():
                return None

    def _issuer(self, now):
        self.model.made += 1
        return Issuer(f"ca-{self.model.made}", now + TERMS.authority_lifetime)

    def _sign(self, issuer, now):
        return ServingCertificate(issuer.id, min(now + TERMS.serving_lifetime, issuer.not_after), HOSTS)


TestRotation = Rotation.TestCase
TestRotation.settings = settings(
    max_examples=80, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
