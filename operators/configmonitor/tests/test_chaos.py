"""ConfigMaps change at random while the operator is killed and the API fails; the audit log decides.

A small scale by default; `pytest -m chaos` runs 200 ConfigMaps with 20 ConfigMonitors each and 1,000 Pods, on the
embedded cluster and on the real control plane, which is the faster one. `STEERSMAN_CHAOS_SEED` varies it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml
from steersman.testing import AuditPolicy, ControlPlane, EmbeddedCluster, eventually, read_audit_log
from steersman.testing.faults import conflict, dropped_watch, internal_error, throttled, unavailable

from .audit_checks import Monitor, PodRecord, RestartHistory, read_history, violations
from .support import CRD, PROJECT, config_map, monitor, workload

SEED = int(os.environ.get("STEERSMAN_CHAOS_SEED", "20260101"))
CONTROL_PLANE = pytest.mark.realcluster("kube-controller-manager")
AUDIT = AuditPolicy(level="Metadata", bodies=("create", "update", "patch"))


@dataclass(frozen=True)
class ChaosScale:
    """The number of objects and faults of a test."""

    configs: int
    monitors: int
    """Of each ConfigMap."""
    groups: int
    size: int
    """Pods of each group."""
    changes: int
    kills: int
    within: float
    """Seconds until the cluster must be settled."""
    poll_seconds: float = 0.5
    """Seconds between two reads of all objects."""


SMALL = ChaosScale(configs=8, monitors=4, groups=6, size=3, changes=12, kills=3, within=60)
REAL = ChaosScale(configs=40, monitors=8, groups=20, size=5, changes=30, kills=5, within=240, poll_seconds=3)
FULL = ChaosScale(configs=200, monitors=20, groups=100, size=10, changes=24, kills=6, within=900, poll_seconds=15)


def embedded():
    return EmbeddedCluster.start(audit=AUDIT)


def real():
    plane = ControlPlane.start(audit=AUDIT)
    plane.add_node("node-1")
    return plane


class Replicas:
    """One process of the operator at a time, each with a user name of its own."""

    def __init__(self, cluster: Any, directory: Any) -> None:
        self.cluster, self.directory = cluster, directory
        self.users: list[str] = []
        roles = yaml.safe_load_all((PROJECT / "config" / "rbac" / "role.yaml").read_text())
        self.rules = next(d for d in roles if d["kind"] == "ClusterRole")["rules"]
        self.start()

    def start(self) -> None:
        user = f"configmonitor-{len(self.users)}"
        self.users.append(user)
        kubeconfig = self.cluster.user_kubeconfig(user, cluster_rules=self.rules)
        command = [sys.executable, "-m", "steersman", "run", "configmonitor:operator", "--kubeconfig", str(kubeconfig)]
        command += ["--no-leader-elect", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--workers=8"]
        with (self.directory / f"{user}.log").open("wb") as out:
            self.process = subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def kill(self) -> None:
        """SIGKILL: no chance to say goodbye."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def log(self) -> str:
        return (self.directory / f"{self.users[-1]}.log").read_text()[-3000:]


def fleet_objects(scale: ChaosScale, rng: random.Random) -> tuple[list[dict[str, Any]], list[Monitor]]:
    """All objects and monitors. Selectors overlap: by group, by zone, and by both."""
    objects: list[dict[str, Any]] = [config_map(f"config-{n}", value="first") for n in range(scale.configs)]
    zones = max(2, scale.groups // 5)
    for group in range(scale.groups):
        labels = {"group": f"g{group}", "zone": f"z{group % zones}"}
        extra = {"replicas": scale.size, "serviceName": "x", "podManagementPolicy": "Parallel"}
        objects.append(workload("StatefulSet", f"group-{group}", labels, **extra))
    monitors: list[Monitor] = []
    for config in range(scale.configs):
        for number in range(scale.monitors):
            group = rng.randrange(scale.groups)
            both = {"group": f"g{group}", "zone": f"z{group % zones}"}
            keys = rng.choice((["group"], ["group"], ["group", "zone"], ["zone"] if number == 0 else ["group"]))
            made = Monitor(f"monitor-{config}-{number}", f"config-{config}", {key: both[key] for key in keys})
            monitors.append(made)
            objects.append(monitor(made.name, made.source, made.selector))
    return objects, monitors


def rate_limited(condition: Callable[[], bool], seconds: float) -> Callable[[], bool]:
    """Return the condition, evaluated at most once in `seconds`, because the reads load the cluster."""
    last = 0.0

    def checked() -> bool:
        nonlocal last
        if time.monotonic() - last < seconds:
            return False
        found = condition()
        last = time.monotonic()
        return found

    return checked


def settled(cluster: Any, versions: dict[str, str], scale: ChaosScale) -> bool:
    """Whether every monitor has handled the last change of its source, and all Pods are back."""
    for found in cluster.list("configmonitors"):
        status = found.get("status") or {}
        restart = status.get("restart") or {}
        last = versions.get(found["spec"]["configMap"])
        if not status.get("observedHash") or restart.get("pending") or (last and restart.get("version") != last):
            return False
    pods = [p for p in cluster.list("pods") if not p["metadata"].get("deletionTimestamp")]
    return len(pods) == scale.groups * scale.size and all(p.get("status", {}).get("phase") == "Running" for p in pods)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "scale"),
    [
        pytest.param(embedded, SMALL, id="small"),
        pytest.param(embedded, FULL, id="full", marks=pytest.mark.chaos),
        pytest.param(real, REAL, id="real", marks=[pytest.mark.chaos, CONTROL_PLANE]),
        pytest.param(real, FULL, id="full-real", marks=[pytest.mark.chaos, CONTROL_PLANE]),
    ],
)
def test_every_pod_restarts_once_for_each_change_whatever_is_killed(start, scale, tmp_path):
    rng = random.Random(SEED)
    objects, monitors = fleet_objects(scale, rng)
    versions: dict[str, str] = {}
    with start() as cluster, cluster.test("default"):
        cluster.apply(CRD)
        for first in range(0, len(objects), 250):
            cluster.apply(*objects[first : first + 250])
        replicas = Replicas(cluster, tmp_path)
        try:
            watched = rate_limited(lambda: settled(cluster, {}, scale), scale.poll_seconds)
            eventually(watched, within=scale.within, what="all is watched")
            if start is embedded:
                cluster.faults.seed(SEED)
                cluster.faults.add(
                    internal_error(resource="pods", verb="create", probability=0.05, times=scale.changes),
                    unavailable(resource="configmonitors", verb="patch", probability=0.05, times=scale.changes),
                    conflict(resource="configmonitors", verb="patch", probability=0.05, times=scale.changes),
                    throttled(1, resource="pods", verb="list", probability=0.05, times=scale.changes),
                    dropped_watch(0.5, probability=0.2, times=scale.kills),
                )
            each = max(1, scale.changes // scale.kills)
            for change in range(scale.changes):
                name = f"config-{rng.randrange(scale.configs)}"
                changed = cluster.patch("configmap", name, {"data": {"value": f"value-{change}"}})
                versions[name] = changed["metadata"]["resourceVersion"]
                if change % each == each - 1:
                    # The moment of death is the experiment: somewhere in the middle of the restarts.
                    time.sleep(rng.uniform(0.0, 1.0))
                    replicas.kill()
                    if rng.random() < 0.5:
                        cluster.restart_apiserver()
                    replicas.start()
                elif rng.random() < 0.3:
                    time.sleep(rng.uniform(0.0, 0.5))
            rest = rate_limited(lambda: settled(cluster, versions, scale), scale.poll_seconds)
            eventually(rest, within=scale.within, what="all has come to rest")
        except BaseException:
            print(replicas.log())
            raise
        finally:
            replicas.close()
        history = read_history(read_audit_log(cluster.audit_log), replicas.users)
    assert sum(map(len, history.changes.values())) == scale.changes
    assert history.evictions >= scale.changes, "hardly anything was restarted, so nothing was proved"
    wrong = violations(history, monitors)
    assert not wrong, f"{len(wrong)} of {history.evictions} restarts:\n" + "\n".join(wrong[:20])


WEB = Monitor("m", "config", {"app": "web"})
OLD = PodRecord("web-0", "old", 10, {"app": "web"})
NEW = PodRecord("web-0", "new", 40, {"app": "web"})


def history_of(*pod_records: PodRecord, plans: Any = ((20, 30, 3),)) -> RestartHistory:
    return RestartHistory({record.uid: record for record in pod_records}, {"config": [20]}, {"m": list(plans)})


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (history_of(replace(OLD, evictions=[5]), NEW), None),
        (history_of(OLD), "has not been restarted since the change at 20"),
        (history_of(replace(OLD, evictions=[5, 6]), NEW), "was evicted 2 times"),
        (history_of(replace(OLD, evictions=[5]), replace(NEW, evictions=[9])), "was restarted for no change"),
        (history_of(replace(OLD, evictions=[2]), NEW), "was restarted for no change"),
        (history_of(OLD, plans=()), "no monitor has acted upon the change"),
    ],
)
def test_the_audit_check_finds_wrong_restarts(history, words):
    wrong = violations(history, [WEB])
    assert (not wrong) if words is None else any(words in one for one in wrong)
