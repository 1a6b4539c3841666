"""500 HelloApps while everything that can be killed is killed, and two replicas fight for the lease."""

from __future__ import annotations

import json
import os
import random
import time
from datetime import timedelta

import pytest
import yaml

from steersman.testing.controlplane import AuditPolicy, ControlPlane

from .leadership import holder_of, writes_outside_leadership
from .running import CRD, Replica, eventually

pytestmark = [pytest.mark.realcluster, pytest.mark.chaos]

APPS = int(os.environ.get("STEERSMAN_CHAOS_APPS", "500"))
KILLS = 10
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


@pytest.fixture
def plane():
    with ControlPlane.start(
        scheduler=False, audit=AuditPolicy(level="Metadata", bodies=("create", "update", "patch"))
    ) as started:
        started.kubectl("apply", "-f", str(CRD))
        started.kubectl("wait", "--for=condition=Established", "crd/helloapps.apps.anupam.com", "--timeout=30s")
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


def helloapp(number: int) -> dict:
    return {
        "apiVersion": "apps.anupam.com/v1",
        "kind": "HelloApp",
        "metadata": {"name": f"app-{number:03}", "namespace": "default"},
        "spec": {"image": f"nginx:1.{number % 30}", "size": number % 3},
    }


def unmatched(plane) -> list[str]:
    """Every HelloApp whose Deployment or status is not what it asks for."""
    apps = plane.call("GET", "/apis/apps.anupam.com/v1/namespaces/default/helloapps")["items"]
    deployments = {
        d["metadata"]["name"]: d for d in plane.call("GET", "/apis/apps/v1/namespaces/default/deployments")["items"]
    }
    wrong = []
    for app in apps:
        name, spec = app["metadata"]["name"], app["spec"]
        deployment = deployments.get(name)
        if deployment is None:
            wrong.append(f"{name}: no Deployment")
        elif deployment["spec"]["replicas"] != spec["size"]:
            wrong.append(f"{name}: {deployment['spec']['replicas']} replicas, not {spec['size']}")
        elif deployment["spec"]["template"]["spec"]["containers"][0]["image"] != spec["image"]:
            wrong.append(f"{name}: the wrong image")
        elif app.get("status", {}).get("observedGeneration") != app["metadata"]["generation"]:
            wrong.append(f"{name}: its status describes an older spec")
    return wrong + [
        f"{name}: a Deployment of no HelloApp" for name in deployments.keys() - {a["metadata"]["name"] for a in apps}
    ]


def disturb(plane, rng: random.Random) -> None:
    """A user changes a size, and somebody scales a Deployment by hand."""
    for _ in range(5):
        app = f"app-{rng.randrange(APPS):03}"
        size = json.dumps({"spec": {"size": rng.randrange(4)}})
        plane.kubectl("patch", "helloapp", app, "--type=merge", "-p", size)
    hand = f"app-{rng.randrange(APPS):03}"
    if plane.kubectl("get", "deployment", hand, "--ignore-not-found", "-o", "name"):
        plane.kubectl("scale", "deployment", hand, f"--replicas={rng.randrange(4)}")


def test_nothing_is_lost_doubled_or_written_by_the_wrong_replica(plane, tmp_path):
    """L2: a deposed or frozen leader writes nothing, and a killed operator loses nothing."""
    rng = random.Random(SEED)
    manifest = yaml.safe_dump_all(helloapp(n) for n in range(APPS))
    fleet = Fleet(plane, tmp_path)
    try:
        plane.kubectl("create", "-f", "-", input=manifest)
        for kill in range(KILLS):
            # The moment of death is the experiment: somewhere in the first seconds of a leader's work.
            time.sleep(rng.uniform(0.5, 3.0))
            fleet.kill_and_replace(kill % 2)
            if kill % 4 == 1:
                plane.kill_apiserver()
                time.sleep(rng.uniform(0.0, 1.0))
                plane.start_apiserver()
            disturb(plane, rng)
            fleet.revive()

        def settled() -> bool:
            fleet.revive()
            return not unmatched(plane)

        eventually(settled, what="every Deployment matches its HelloApp", within=180, every=1.0)
    except BaseException:
        print(fleet.logs())
        print("\n".join(unmatched(plane)[:20]))
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
    assert len(leaders) > 2, "the lease never changed hands, so nothing was proved"
    writes = [e for e in events if e.user in fleet.users and e.is_write and e.resource == "deployments"]
    assert len(writes) >= APPS
    violations = writes_outside_leadership(events, replicas=fleet.users, lease_duration=LEASE)
    assert not violations, "\n".join(map(str, violations[:20]))


def test_the_judge_convicts_a_write_of_the_wrong_replica(plane):
    """L2: the proof above can fail: two users, one lease, and a write by the one that does not hold it."""
    for user in ("honest", "usurper"):
        plane.user_kubeconfig(user, cluster_rules=RULES)
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"holderIdentity": "honest-1", "leaseDurationSeconds": 4},
    }
    honest = plane.user_kubeconfig("honest", cluster_rules=RULES)
    usurper = plane.user_kubeconfig("usurper", cluster_rules=RULES)
    plane.kubectl("create", "-f", "-", input=json.dumps(lease), kubeconfig=honest)
    deployment = ("create", "deployment", "--image=nginx", "--validate=false")
    plane.kubectl(*deployment, "mine", kubeconfig=honest)
    plane.kubectl(*deployment, "theirs", kubeconfig=usurper)
    events = list(plane.audit_events(stage=None))
    (violation,) = writes_outside_leadership(
        events, replicas=["honest", "usurper"], lease_duration=timedelta(seconds=60)
    )
    assert violation.event.user == "usurper"
    late = writes_outside_leadership(events, replicas=["honest", "usurper"], lease_duration=timedelta(0))
    assert {v.event.user for v in late} == {"honest", "usurper"}
