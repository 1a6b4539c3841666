"""Decisions of the controllers as tables: no cluster, no clock."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.k8s import Deployment, Job, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicaSet
from steersman.models import ObjectMeta, from_dict
from steersman_cluster.controllers.autoscaling.scaling import History, bounded, by_average, by_ratio, stabilised
from steersman_cluster.controllers.node_lifecycle import evicted_at
from steersman_cluster.controllers.ownership import FOREGROUND, ORPHAN, OwnerState, verdict_of
from steersman_cluster.controllers.pods import deletion_order
from steersman_cluster.controllers.scheduling.node_fit import node_problem, requests_of, untolerated
from steersman_cluster.controllers.storage.claims import best_volume
from steersman_cluster.controllers.workloads import job_status
from steersman_cluster.controllers.workloads.cron import ScheduleError, parse, zone_of
from steersman_cluster.controllers.workloads.rollout import (
    RolloutLimits,
    annotations_for,
    new_size,
    old_sizes,
    proportional_sizes,
    rollout_limits,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SPEC = {"containers": [{"name": "main", "image": "web:1"}]}


def deployment(replicas: int, surge: Any = "25%", down: Any = "25%", **status: Any) -> Deployment:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": down}}
    spec = {"replicas": replicas, "strategy": strategy, "selector": {}, "template": {"spec": SPEC}}
    return from_dict(Deployment, {"metadata": {"name": "web"}, "spec": spec, "status": status})


def replica_set(name: str, replicas: int, available: int = 0, age: int = 0, **annotations: str) -> ReplicaSet:
    notes = {f"deployment.kubernetes.io/{k.replace('_', '-')}": v for k, v in annotations.items()}
    metadata = {
        "name": name,
        "annotations": notes,
        "creationTimestamp": (NOW - timedelta(seconds=age)).isoformat().replace("+00:00", "Z"),
    }
    spec = {"replicas": replicas, "selector": {}, "template": {"spec": SPEC}}
    return from_dict(ReplicaSet, {"metadata": metadata, "spec": spec, "status": {"availableReplicas": available}})


def pod(name: str = "p", **parts: Any) -> Pod:
    return from_dict(
        Pod,
        {
            "metadata": {"name": name, "namespace": "ns", **parts.get("metadata", {})},
            "spec": {**SPEC, **parts.get("spec", {})},
            "status": parts.get("status", {}),
        },
    )


@pytest.mark.parametrize(
    ("replicas", "surge", "down", "expected"),
    [
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (2, 0, "1%", (0, 1)),
        (3, 0, 0, (0, 1)),
        (2, 1, 5, (1, 2)),
        (0, "25%", "25%", (0, 0)),
    ],
)
def test_surge_is_rounded_up_and_unavailability_down(replicas, surge, down, expected):
    assert rollout_limits(deployment(replicas, surge, down)) == RolloutLimits(*expected)


@pytest.mark.parametrize(
    ("wanted", "old", "new", "expected"),
    [(10, 10, 0, 3), (10, 8, 5, 5), (10, 13, 0, 0), (10, 0, 7, 10), (3, 0, 5, 3)],
)
def test_the_new_set_grows_as_far_as_the_surge_lets_it(wanted, old, new, expected):
    sets = [replica_set("old", old), replica_set("new", new)]
    assert new_size(deployment(wanted), sets, new) == expected


def test_old_sets_lose_what_does_not_serve_first():
    d = deployment(10, 3, 2)
    old = [replica_set("older", 8, available=6, age=9)]
    assert old_sizes(d, old, replica_set("new", 5, available=5)) == {"older": 3}
    assert old_sizes(d, old, replica_set("new", 5, available=0)) == {"older": 8}


def test_scaling_in_mid_rollout_is_shared_by_size():
    sets = [
        replica_set("old", 8, age=9, max_replicas="13", desired_replicas="10"),
        replica_set("new", 5, age=1, max_replicas="13", desired_replicas="10"),
    ]
    sizes = proportional_sizes(deployment(20, 3, 2), sets)
    assert sizes == {"old": 14, "new": 9}


@given(st.integers(0, 40), st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_a_proportional_scale_adds_up_to_what_is_allowed(wanted, present):
    before = str(sum(present))
    sets = [replica_set(f"rs{n}", size, age=n, max_replicas=before) for n, size in enumerate(present)]
    d = deployment(wanted, 2, 0)
    sizes = proportional_sizes(d, sets)
    assert all(size >= 0 for size in sizes.values())
    assert sum(sizes.values()) == (wanted + 2 if wanted else 0)


def test_a_set_that_serves_again_remembers_the_revisions_it_had():
    d = deployment(1)
    first = annotations_for(d, {}, 1, exists=False)
    assert first["deployment.kubernetes.io/revision"] == "1"
    again = annotations_for(d, first, 3, exists=True)
    assert again["deployment.kubernetes.io/revision"] == "3"
    assert again["deployment.kubernetes.io/revision-history"] == "1"
    assert annotations_for(d, again, 2, exists=True) == again


def test_pods_that_serve_least_are_given_up_first():
    ready = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T11:00:00Z"}]}
    pods = [
        pod("serving", spec={"nodeName": "n"}, status={"phase": "Running", **ready}),
        pod("unready", spec={"nodeName": "n"}, status={"phase": "Running"}),
        pod("pending", spec={"nodeName": "n"}, status={"phase": "Pending"}),
        pod("unbound", status={"phase": "Pending"}),
        pod(
            "cheap",
            spec={"nodeName": "n"},
            status={"phase": "Running", **ready},
            metadata={"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}},
        ),
    ]
    order = [p.metadata.name for p in deletion_order(pods, {"n": 4}, NOW)]
    assert order == ["unbound", "pending", "unready", "cheap", "serving"]


@pytest.mark.parametrize(
    ("states", "finalizers", "has_dependents", "action", "propagation"),
    [
        ({}, (), False, "keep", "Background"),
        ({"a": OwnerState.SOLID}, (), False, "keep", "Background"),
        ({"a": OwnerState.SOLID, "b": OwnerState.ABSENT}, (), False, "cut", "Background"),
        ({"a": OwnerState.ABSENT}, (), False, "delete", "Background"),
        ({"a": OwnerState.ABSENT}, (ORPHAN,), False, "delete", "Orphan"),
        ({"a": OwnerState.WAITING}, (), True, "delete", "Foreground"),
        ({"a": OwnerState.WAITING}, (), False, "delete", "Background"),
        ({"a": OwnerState.ABSENT}, (FOREGROUND,), False, "delete", "Foreground"),
    ],
)
def test_a_dependent_goes_when_no_solid_owner_is_left(states, finalizers, has_dependents, action, propagation):
    verdict = verdict_of(ObjectMeta(name="x", finalizers=finalizers), states, has_dependents=has_dependents)
    assert (verdict.action, verdict.propagation) == (action, propagation)


@pytest.mark.parametrize(
    ("line", "after", "expected"),
    [
        ("*/15 * * * *", "2026-03-01T12:00:00Z", "2026-03-01T12:15:00Z"),
        ("30 9 * * mon-fri", "2026-03-06T10:00:00Z", "2026-03-09T09:30:00Z"),
        ("0 0 29 2 *", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 12 13 * fri", "2026-03-01T12:00:00Z", "2026-03-06T12:00:00Z"),
        ("@hourly", "2026-03-01T12:30:00Z", "2026-03-01T13:00:00Z"),
        ("@every 90s", "2026-03-01T12:00:00Z", "2026-03-01T12:01:30Z"),
        ("0 0 * * 0", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z"),
        ("0 0 */10 * mon", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"),
        ("0 0 */1 * mon", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"),
        ("0 0 13,* * fri", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z"),
        ("0 0 13 * */3", "2026-03-01T00:00:00Z", "2026-03-04T00:00:00Z"),
        ("0 0 ,20,, * *", "2026-03-01T00:00:00Z", "2026-03-20T00:00:00Z"),
        ("+5 *-3 * * *", "2026-03-01T00:10:00Z", "2026-03-01T01:05:00Z"),
        ("TZ=Asia/Tokyo 0 9 * * *", "2026-03-01T01:00:00Z", "2026-03-02T00:00:00Z"),
        ("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),
    ],
)
def test_a_schedule_is_due(line, after, expected):
    due = parse(line).next(datetime.fromisoformat(after))
    assert due == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    "line",
    ["", "* * * *", "60 * * * *", "*/0 * * * *", "a * * * *", "5-1 * * * *", "@every soon", "0 0 * * 7", "0 0 * * 5-7"],
)
def test_what_is_no_schedule_says_so(line):
    with pytest.raises(ScheduleError):
        parse(line)


def test_an_unknown_time_zone_says_so():
    with pytest.raises(ScheduleError, match="unknown time zone Mars/Olympus"):
        zone_of("Mars/Olympus")


@pytest.mark.slow
def test_missed_starts_are_counted_and_only_the_last_is_made_up_for():
    latest, missed = parse("*/5 * * * *").latest(NOW, NOW + timedelta(minutes=21))
    assert (latest, missed) == (NOW + timedelta(minutes=20), 4)
    latest, missed = parse("* * * * *").latest(NOW, NOW + timedelta(days=30))
    assert missed == 101
    assert latest == NOW + timedelta(days=30)


@given(st.sets(st.integers(0, 60)))
def test_indexes_are_written_and_read_back(indexes):
    assert job_status.indexes_in(job_status.text_of(indexes)) == indexes


def test_indexes_are_written_as_the_api_has_them():
    assert job_status.text_of({1, 3, 4, 5, 7, 8}) == "1,3-5,7,8"


@pytest.mark.parametrize(
    ("spec", "succeeded", "active", "expected"),
    [
        ({"completions": 5, "parallelism": 2}, 0, 0, 2),
        ({"completions": 5, "parallelism": 2}, 4, 0, 1),
        ({"completions": 5, "parallelism": 2}, 5, 0, 0),
        ({"parallelism": 3}, 0, 0, 3),
        ({"parallelism": 3}, 1, 2, 2),
    ],
)
def test_a_job_runs_as_many_pods_as_it_needs(spec, succeeded, active, expected):
    job = from_dict(Job, {"metadata": {"name": "j"}, "spec": {"template": {"spec": SPEC}, **spec}})
    assert job_status.wanted_active(job, succeeded, active) == expected


def test_each_failure_doubles_the_wait_and_a_success_ends_it():
    def ended(phase, at):
        when = (NOW + timedelta(seconds=at)).isoformat().replace("+00:00", "Z")
        return pod(status={"phase": phase, "startTime": when})

    assert job_status.retry_at([ended("Succeeded", 0)], 10) is None
    assert job_status.retry_at([ended("Failed", 0)], 10) == NOW + timedelta(seconds=10)
    assert job_status.retry_at([ended("Failed", 0), ended("Failed", 5)], 10) == NOW + timedelta(seconds=25)
    mixed = [ended("Failed", 0), ended("Succeeded", 3), ended("Failed", 5)]
    assert job_status.retry_at(mixed, 10) == NOW + timedelta(seconds=15)


def node(taints: Any = (), **parts: Any) -> Node:
    allocatable = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    return from_dict(
        Node,
        {
            "metadata": {"name": "n", "labels": {"disk": "fast"}},
            "spec": {"taints": list(taints), **parts},
            "status": {"allocatable": allocatable},
        },
    )


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "on", "used", "problem"),
    [
        ({}, node(), {}, ""),
        ({}, node(unschedulable=True), {}, "node(s) were unschedulable"),
        ({}, node([TAINT]), {}, "node(s) had untolerated taint(s) {k: v}"),
        ({"tolerations": [{"key": "k", "operator": "Exists"}]}, node([TAINT]), {}, ""),
        ({"nodeSelector": {"disk": "slow"}}, node(), {}, "node(s) didn't match Pod's node affinity/selector"),
        ({}, node(), {"pods": 10_000}, "Too many pods"),
        (
            {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]},
            node(),
            {"cpu": 600},
            "Insufficient cpu",
        ),
    ],
)
def test_a_pod_fits_on_a_node_or_is_told_why_not(spec, on, used, problem):
    wanting = pod(spec=spec)
    assert node_problem(wanting, on, used, requests_of(wanting)) == problem


def test_requests_are_the_larger_of_containers_and_init_containers():
    def container(name, cpu, **more):
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("a", "1"), container("b", "500m")],
        "initContainers": [container("side", "250m", restartPolicy="Always"), container("init", "2")],
        "overhead": {"cpu": "100m"},
    }
    assert requests_of(pod(spec=spec)) == {"cpu": 2350, "pods": 1000}


def test_a_pod_leaves_a_tainted_node_when_its_toleration_ends():
    taints = node([{"key": "x", "effect": "NoExecute", "timeAdded": "2026-03-01T12:00:00Z"}]).spec.taints
    later = [{"key": "x", "operator": "Exists", "tolerationSeconds": 30}]
    assert evicted_at(pod(), taints, NOW) == NOW
    assert evicted_at(pod(spec={"tolerations": later}), taints, NOW) == NOW + timedelta(seconds=30)
    assert evicted_at(pod(spec={"tolerations": [{"operator": "Exists"}]}), taints, NOW) is None
    assert untolerated((), taints).key == "x"


def test_a_claim_takes_what_is_reserved_for_it_before_what_is_free():
    claim = from_dict(
        PersistentVolumeClaim,
        {
            "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    )

    def volume(name, size, **spec):
        whole = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **spec}
        return from_dict(PersistentVolume, {"metadata": {"name": name}, "spec": whole})

    free = [volume("big", "5Gi"), volume("fit", "1Gi"), volume("small", "100Mi")]
    assert best_volume(claim, free).metadata.name == "fit"
    kept = volume("kept", "9Gi", claimRef={"namespace": "ns", "name": "c"})
    assert best_volume(claim, [*free, kept]).metadata.name == "kept"
    taken = volume("taken", "1Gi", claimRef={"namespace": "ns", "name": "c", "uid": "other"})
    assert best_volume(claim, [taken]) is None


def test_small_differences_scale_nothing():
    assert by_ratio(Fraction(105, 100), 4, 4) == 4
    assert by_ratio(Fraction(150, 100), 4, 4) == 6
    assert by_average(Fraction(100), Fraction(10), 4) == 10
    assert by_average(Fraction(41), Fraction(10), 4) == 4


def test_scaling_down_waits_for_the_highest_recent_recommendation():
    history = History([], [], [])
    assert stabilised(8, 8, None, history, 0.0)[0] == 8
    assert stabilised(3, 8, None, history, 100.0)[:2] == (8, "ScaleDownStabilized")
    assert stabilised(3, 8, None, history, 301.0)[0] == 3


@pytest.mark.parametrize(
    ("desired", "present", "replicas", "reason"),
    [
        (5, 4, 5, "DesiredWithinRange"),
        (50, 4, 8, "ScaleUpLimit"),
        (50, 8, 10, "TooManyReplicas"),
        (0, 4, 2, "TooFewReplicas"),
        (4, 4, 4, "DesiredWithinRange"),
    ],
)
def test_a_step_stays_within_policies_and_bounds(desired, present, replicas, reason):
    step = bounded(desired, present, 2, 10, None, History([], [], []), 0.0)
    assert (step.replicas, step.reason) == (replicas, reason)
