"""HelloApps while everything that can be killed is killed, and two replicas fight for the lease.

Five hundred of them on the real control plane; a smaller edition on the embedded cluster, wherever there is Python.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import dataclass
from datetime import timedelta

import pytest
from steersman import ObjectMeta
from steersman.k8s import Deployment, Lease, LeaseSpec
from steersman.testing import AuditPolicy, ControlPlane, EmbeddedCluster

from helloapp.api.v1.helloapp_types import HelloApp, HelloAppSpec
from helloapp.controllers.helloapp_controller import deployment_for

from .leadership import holder_of, writes_outside_leadership
from .objects import Objects
from .running import CRD, Replica, eventually

pytestmark = pytest.mark.chaos

SEED = int(os.environ.get("STEERSMAN_CHAOS_SEED", "20260101"))
LEASE = timedelta(seconds=4)
FLAGS = (
    "--leader-elect", "--lease-duration=4s", "--renew-deadline=2.5s", "--retry-period=0.5s", "--workers=8",
)  # fmt: skip
RULES = [
    {"apiGroups": ["apps.anupam.com"], "resources": ["helloapps"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["apps.anupam.com"], "resources": ["helloapps/status"], "verbs": ["get", "patch", "update"]},
    {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"],
    },
    {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "patch"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]


@dataclass(frozen=True)
class Edition:
    """How much of it."""

    apps: int
    kills: int
    pause: tuple[float, float]
    """Seconds between kills, from and to."""
    leaders: int
    """At least so many must have led, or nothing was proved."""


def real():
    return ControlPlane.start(
        scheduler=False, audit=AuditPolicy(level="Metadata", bodies=("create", "update", "patch"))
    )


def embedded():
    return EmbeddedCluster.start(audit=AuditPolicy(level="Metadata", bodies=("create", "update", "patch")))


CLUSTERS = [
    pytest.param(embedded, Edition(40, 4, (0.5, 2.0), leaders=2), id="embedded"),
    pytest.param(
        real,
        Edition(int(os.environ.get("STEERSMAN_CHAOS_APPS", "500")), 10, (0.5, 3.0), leaders=3),
        id="real",
        marks=pytest.mark.realcluster,
    ),
]


@pytest.fixture
def plane(start):
    with start() as started:
        Objects(started.kubeconfig).apply(CRD)
        yield started


class Fleet:
    """Two replicas, each start of one with a user name of its own, so that the audit log can tell them apart."""

    def __init__(self, plane, directory):
        self.plane, self.directory = plane, directory
        self.users: list[str] = []
        self.replicas = [self.start(), self.start()]

    def start(self) -> Replica:
        user = f"replica-{len(self.users)}"
        self.users.append(user)
        kubeconfig = self.plane.user_kubeconfig(user, cluster_rules=RULES)
        return Replica(kubeconfig, self.directory / f"{user}.log", *FLAGS)

    def kill_and_replace(self, slot: int) -> None:
        self.replicas[slot].kill()
        self.replicas[slot] = self.start()

    def revive(self) -> None:
        """Start anew what ended by itself, as a Deployment would: losing the lease ends a process."""
        for slot, replica in enumerate(self.replicas):
            if not replica.alive:
                self.replicas[slot] = self.start()

    def close(self) -> None:
        for replica in self.replicas:
            if replica.alive:
                replica.stop()

    def logs(self) -> str:
        return "\n".join(
            f"--- {log.name}\n{log.read_text()[-1500:]}" for log in sorted(self.directory.glob("*.log"))[-4:]
        )


def helloapp(number: int) -> HelloApp:
    return HelloApp(
        metadata=ObjectMeta(name=f"app-{number:03}", namespace="default"),
        spec=HelloAppSpec(image=f"nginx:1.{number % 30}", size=number % 3),
    )


def unmatched(user: Objects) -> list[str]:
    """Every HelloApp whose Deployment or status is not what it asks for."""
    apps = user.list(HelloApp)
    deployments = {d.metadata.name: d for d in user.list(Deployment)}
    wrong = []
    for app in apps:
        name, spec = app.metadata.name, app.spec
        deployment = deployments.get(name)
        if deployment is None:
            wrong.append(f"{name}: no Deployment")
        elif deployment.spec.replicas != spec.size:
            wrong.append(f"{name}: {deployment.spec.replicas} replicas, not {spec.size}")
        elif deployment.spec.template.spec.containers[0].image != spec.image:
            wrong.append(f"{name}: the wrong image")
        elif app.status.observed_generation != app.metadata.generation:
            wrong.append(f"{name}: its status describes an older spec")
    return wrong + [
        f"{name}: a Deployment of no HelloApp" for name in deployments.keys() - {a.metadata.name for a in apps}
    ]


def disturb(user: Objects, apps: int, rng: random.Random) -> None:
    """A user changes sizes, and another user scales a Deployment."""
    for _ in range(5):
        user.patch(HelloApp, f"app-{rng.randrange(apps):03}", {"spec": {"size": rng.randrange(4)}})
    hand, replicas = f"app-{rng.randrange(apps):03}", rng.randrange(4)
    if user.get(Deployment, hand) is not None:
        user.scale(Deployment, hand, replicas)


@pytest.mark.slow
@pytest.mark.parametrize(("start", "edition"), CLUSTERS)
def test_nothing_is_lost_doubled_or_written_by_the_wrong_replica(plane, edition, tmp_path):
    """L2: a deposed or frozen leader writes nothing, and a killed operator loses nothing."""
    rng = random.Random(SEED)
    user = Objects(plane.kubeconfig)
    fleet = Fleet(plane, tmp_path)
    try:
        user.run(lambda client: asyncio.gather(*(client.create(helloapp(n)) for n in range(edition.apps))))
        for kill in range(edition.kills):
            # The moment of death is the experiment: somewhere in the first seconds of a leader's work.
            time.sleep(rng.uniform(*edition.pause))
            fleet.kill_and_replace(kill % 2)
            if kill % 4 == 1:
                plane.kill_apiserver()
                time.sleep(rng.uniform(0.0, 1.0))
                plane.start_apiserver()
            disturb(user, edition.apps, rng)
            fleet.revive()

        def settled() -> bool:
            fleet.revive()
            return not unmatched(user)

        eventually(settled, what="every Deployment matches its HelloApp", within=180, every=0.5)
    except BaseException:
        print(fleet.logs())
        print("\n".join(unmatched(user)[:20]))
        raise
    finally:
        fleet.close()

    events = list(plane.audit_events(stage=None))
    created = [
        e.name for e in events
        if e.stage == "ResponseComplete" and e.resource == "deployments" and e.code == 201 and e.user in fleet.users
    ]  # fmt: skip
    assert len(created) == len(set(created)), "a Deployment was created twice"
    leaders = {e.user for e in events if e.user in fleet.users and holder_of(e)}
    assert len(leaders) >= edition.leaders, "the lease never changed hands, so nothing was proved"
    writes = [e for e in events if e.user in fleet.users and e.is_write and e.resource == "deployments"]
    assert len(writes) >= edition.apps
    violations = writes_outside_leadership(events, replicas=fleet.users, lease_duration=LEASE)
    assert not violations, "\n".join(map(str, violations[:20]))


@pytest.mark.parametrize("start", [pytest.param(case.values[0], id=case.id, marks=case.marks) for case in CLUSTERS])
def test_the_judge_convicts_a_write_of_the_wrong_replica(plane):
    """L2: the proof above can fail: two users, one lease, and a write by the one that does not hold it."""
    users = {who: Objects(plane.user_kubeconfig(who, cluster_rules=RULES)) for who in ("honest", "usurper")}
    lease = Lease(
        metadata=ObjectMeta(name="demo", namespace="default"),
        spec=LeaseSpec(holder_identity="honest-1", lease_duration_seconds=4),
    )

    def deployment(name: str) -> Deployment:
        return deployment_for(HelloApp(metadata=ObjectMeta(name=name), spec=HelloAppSpec(image="nginx")))

    users["honest"].run(lambda client: client.create(lease))
    users["honest"].run(lambda client: client.create(deployment("mine")))
    users["usurper"].run(lambda client: client.create(deployment("theirs")))
    events = list(plane.audit_events(stage=None))
    (violation,) = writes_outside_leadership(
        events, replicas=["honest", "usurper"], lease_duration=timedelta(seconds=60)
    )
    assert violation.event.user == "usurper"
    late = writes_outside_leadership(events, replicas=["honest", "usurper"], lease_duration=timedelta(0))
    assert {v.event.user for v in late} == {"honest", "usurper"}
