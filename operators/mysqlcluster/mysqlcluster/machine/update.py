"""Upgrades of the servers: a canary first, then the other replicas, then the primary after a switchover.

Each step is stored before its actions. From the step `Canary` on, the Pod template has the new image. After a failed
analysis it has the old image again, and a copy replaces the canary's data, because the new version has changed it.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec.structs import replace

from mysqlcluster.machine.settings import is_whole
from mysqlcluster.machine.state import ClusterState, Notice, Policy
from mysqlcluster.observation import MemberState, Observation
from mysqlcluster.versions import upgrade_refusal

__all__ = ["Phase", "Plan", "Rollout", "Rules", "plan"]

START_SECONDS = 300.0
"""Time in which a canary must replicate again after its Pod was replaced; this may include a copy of the data."""
SAMPLE_SECONDS = 1.0
SLOW_SECONDS = 0.25
SLOW_FACTOR = 5.0
"""The canary fails if its mean probe exceeds `SLOW_SECONDS` and this multiple of the other members' mean."""


class Phase(StrEnum):
    """The stored step of an upgrade."""

    IDLE = "Idle"
    CANARY = "Canary"
    """The Pod of one replica is replaced."""
    ANALYSIS = "Analysis"
    """The canary is observed."""
    ROLLING = "Rolling"
    """The Pods of the other members are replaced, the primary last. The operator does not roll back any more."""
    ROLLING_BACK = "RollingBack"
    """The canary gets its old version and a copy of the primary's data."""
    FAILED = "Failed"
    """The analysis failed. The operator waits until the spec has another image."""


class Rollout(msgspec.Struct, frozen=True):
    """The stored state of an upgrade."""

    image: str = ""
    """The image of the cluster, or its image before the upgrade that is in progress."""
    target: str = ""
    phase: Phase = Phase.IDLE
    canary: str = ""
    started_at: float = 0.0
    samples: int = 0
    errors: int = 0
    canary_seconds: float = 0.0
    """Sum of the canary's probe times."""
    others_seconds: float = 0.0
    """Sum of the mean probe times of the other members."""
    sampled_at: float = 0.0
    message: str = ""

    @property
    def template(self) -> str:
        """The image of the Pods' template."""
        return self.target if self.phase in (Phase.CANARY, Phase.ANALYSIS, Phase.ROLLING) else self.image


class Rules(msgspec.Struct, frozen=True):
    """The settings of upgrades, from the spec."""

    image: str
    version: str
    strategy: str = "Canary"
    analysis_seconds: float = 60.0
    max_error_rate: float = 0.01
    max_lag_seconds: float = 10.0
    auto_rollback: bool = True


class Plan(msgspec.Struct, frozen=True):
    """A state to store, or a Pod to replace, or a switchover to request, or nothing."""

    store: Rollout | None = None
    replace: str = ""
    switch: bool = False
    blocked: str = ""
    notices: tuple[Notice, ...] = ()


def plan(
    rules: Rules, rollout: Rollout, policy: Policy, state: ClusterState, seen: Observation, outdated: tuple[str, ...]
) -> Plan:
    """Return the next step of an upgrade.

    Args:
        rules: The settings of upgrades.
        rollout: The stored state of the upgrade.
        policy: The policy of the cluster.
        state: The stored state of the cluster.
        seen: The members.
        outdated: Members with a Pod of another image than `rollout.template`.
    """
    if policy.paused or not state.primary:
        return Plan()
    whole = is_whole(policy, state, seen)
    match rollout.phase:
        case Phase.IDLE:
            if rollout.image == rules.image:
                # A Pod may have kept a former image, such as after a manual rollback.
                return _next_pod(rules, state, seen, outdated, whole) if outdated else Plan()
            return _begin(rules, rollout, policy, state, seen, whole)
        case Phase.FAILED:
            if rules.image == rollout.target:
                return Plan(blocked=rollout.message)
            return Plan(store=Rollout(image=rollout.image))
        case Phase.CANARY:
            return _start_canary(rules, rollout, state, seen, outdated, whole)
        case Phase.ANALYSIS:
            return _analyse(rules, rollout, state, seen, whole)
        case Phase.ROLLING_BACK:
            if state.primary == rollout.canary:  # only the canary may have all acknowledged transactions
                return Plan(switch=True, blocked=f"{rollout.canary} became the primary during its analysis")
            if rollout.canary in outdated:
                return Plan(replace=rollout.canary)
            if not whole:
                return Plan()
            text = f"{rollout.canary} runs {rollout.image} again: {rollout.message}"
            notice = Notice("CanaryRolledBack", text, warning=True)
            return Plan(store=replace(rollout, phase=Phase.FAILED), notices=(notice,))
        case Phase.ROLLING:
            if not outdated:
                return Plan(store=Rollout(image=rollout.target)) if whole else Plan()
            return _next_pod(rules, state, seen, outdated, whole)


def _begin(rules: Rules, rollout: Rollout, policy: Policy, state: ClusterState, seen: Observation, whole: bool) -> Plan:
    if not whole:
        return Plan(blocked="the upgrade waits until every member replicates")
    for member in seen.select(policy.members):
        if refusal := upgrade_refusal(member.version, rules.version):
            return Plan(blocked=refusal)
    replicas = [name for name in policy.members if name != state.primary]
    fresh = Rollout(image=rollout.image, target=rules.image, started_at=seen.time)
    if rules.strategy == "Canary" and replicas:
        return Plan(store=replace(fresh, phase=Phase.CANARY, canary=replicas[-1]))
    return Plan(store=replace(fresh, phase=Phase.ROLLING))


def _start_canary(
    rules: Rules, rollout: Rollout, state: ClusterState, seen: Observation, outdated: tuple[str, ...], whole: bool
) -> Plan:
    if state.primary == rollout.canary:
        return Plan(store=replace(rollout, phase=Phase.ROLLING))
    if rollout.canary in outdated:
        return Plan(replace=rollout.canary) if whole else Plan()
    if _replicates(seen.get(rollout.canary), state):
        return Plan(store=replace(rollout, phase=Phase.ANALYSIS, started_at=seen.time))
    if seen.time - rollout.started_at >= START_SECONDS:
        return _fail(rules, rollout, f"{rollout.canary} does not replicate {START_SECONDS:.0f} s after its start")
    return Plan()


def _analyse(rules: Rules, rollout: Rollout, state: ClusterState, seen: Observation, whole: bool) -> Plan:
    if state.primary == rollout.canary:
        return Plan(store=replace(rollout, phase=Phase.ROLLING))
    canary = seen.get(rollout.canary)
    if canary.sql_error:
        return _fail(rules, rollout, f"{rollout.canary} cannot apply a transaction: {canary.sql_error}")
    if seen.time - rollout.started_at >= rules.analysis_seconds:
        reason = _verdict(rules, rollout, canary, state)
        if reason:
            return _fail(rules, rollout, reason)
        text = f"{rollout.canary} ran {rollout.target} for {rules.analysis_seconds:.0f} s"
        return Plan(store=replace(rollout, phase=Phase.ROLLING), notices=(Notice("CanaryPassed", text),))
    if seen.time - rollout.sampled_at < SAMPLE_SECONDS:
        return Plan()
    others = [each for each in seen.members if each.name != rollout.canary and each.usable]
    mean = sum(each.probe_seconds for each in others) / len(others) if others else 0.0
    sampled = replace(
        rollout,
        samples=rollout.samples + 1,
        errors=rollout.errors + (not _replicates(canary, state)),
        canary_seconds=rollout.canary_seconds + canary.probe_seconds,
        others_seconds=rollout.others_seconds + mean,
        sampled_at=seen.time,
    )
    return Plan(store=sampled)


def _verdict(rules: Rules, rollout: Rollout, canary: MemberState, state: ClusterState) -> str:
    """Return why the analysis failed; empty if it passed."""
    if not _replicates(canary, state):
        return f"{rollout.canary} does not replicate at the end of the analysis"
    if rollout.samples and rollout.errors / rollout.samples > rules.max_error_rate:
        return f"{rollout.errors} of {rollout.samples} probes of {rollout.canary} failed"
    if canary.lag_seconds is not None and canary.lag_seconds > rules.max_lag_seconds:
        return f"{rollout.canary} lags {canary.lag_seconds:.0f} s at the end of the analysis"
    if rollout.samples:
        own, others = rollout.canary_seconds / rollout.samples, rollout.others_seconds / rollout.samples
        if own > SLOW_SECONDS and own > SLOW_FACTOR * others:
            return f"a probe of {rollout.canary} takes {own:.2f} s, one of the other members {others:.2f} s"
    return ""


def _fail(rules: Rules, rollout: Rollout, reason: str) -> Plan:
    phase = Phase.ROLLING_BACK if rules.auto_rollback else Phase.FAILED
    return Plan(store=replace(rollout, phase=phase, message=reason))


def _next_pod(rules: Rules, state: ClusterState, seen: Observation, outdated: tuple[str, ...], whole: bool) -> Plan:
    """Return the next Pod to replace: one at a time, replicas first, the former primary after a switchover."""
    if rules.strategy == "OnDelete":
        return Plan(blocked=f"update.strategy is OnDelete: delete the Pods {', '.join(outdated)} to upgrade them")
    if not whole:
        return Plan()
    replicas = [name for name in outdated if name != state.primary]
    if replicas:
        return Plan(replace=replicas[-1])
    return Plan(switch=True) if len(seen.members) > 1 else Plan(replace=outdated[0])


def _replicates(member: MemberState, state: ClusterState) -> bool:
    return member.follows(state.primary, state.epoch) and member.complete
