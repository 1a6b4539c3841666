"""ConfigMaps change at random while the operator is killed and the API fails; the audit log is the judge.

A small edition by default; `pytest -m chaos` runs 200 ConfigMaps with 20 ConfigMonitors each and 1,000 Pods, on the
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

from .audit_checks import Case, Life, Monitor, hear, verdict
from .support import CRD, PROJECT, config_map, monitor, workload

SEED = int(os.environ.get("STEERSMAN_CHAOS_SEED", "20260101"))
CONTROL_PLANE = pytest.mark.realcluster("kube-controller-manager")
AUDIT = AuditPolicy(level="Metadata", bodies=("create", "update", "patch"))


@dataclass(frozen=True)
class Edition:
    """How much of it."""

    configs: int
    monitors: int
    """Of each ConfigMap."""
    groups: int
    size: int
    """Pods of each group."""
    changes: int
    kills: int
    within: float
    """Seconds until all has come to rest."""
    look: float = 0.5
    """Seconds between two looks at everything."""


SMALL = Edition(configs=8, monitors=4, groups=6, size=3, changes=12, kills=3, within=60)
REAL = Edition(configs=40, monitors=8, groups=20, size=5, changes=30, kills=5, within=240, look=3)
FULL = Edition(configs=200, monitors=20, groups=100, size=10, changes=24, kills=6, within=900, look=15)


def embedded():
    return EmbeddedCluster.start(audit=AUDIT)


def real():
    plane = ControlPlane.start(audit=AUDIT)
    plane.add_node("node-1")
    return plane


class Fleet:
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


def cast_of(edition: Edition, rng: random.Random) -> tuple[list[dict[str, Any]], list[Monitor]]:
    """All objects, and who watches what. Selectors overlap: by group, by zone, and by both."""
    objects: list[dict[str, Any]] = [config_map(f"config-{n}", value="first") for n in range(edition.configs)]
    zones = max(2, edition.groups // 5)
    for group in range(edition.groups):
        labels = {"group": f"g{group}", "zone": f"z{group % zones}"}
        extra = {"replicas": edition.size, "serviceName": "x", "podManagementPolicy": "Parallel"}
        objects.append(workload("StatefulSet", f"group-{group}", labels, **extra))
    monitors: list[Monitor] = []
    for config in range(edition.configs):
        for number in range(edition.monitors):
            group = rng.randrange(edition.groups)
            both = {"group": f"g{group}", "zone": f"z{group % zones}"}
            keys = rng.choice((["group"], ["group"], ["group", "zone"], ["zone"] if number == 0 else ["group"]))
            made = Monitor(f"monitor-{config}-{number}", f"config-{config}", {key: both[key] for key in keys})
            monitors.append(made)
            objects.append(monitor(made.name, made.source, made.selector))
    return objects, monitors


def seldom(condition: Callable[[], bool], seconds: float) -> Callable[[], bool]:
    """The condition, judged every so often: to look costs the cluster as much as some of its work."""
    last = 0.0

    def judged() -> bool:
        nonlocal last
        if time.monotonic() - last < seconds:
            return False
        found = condition()
        last = time.monotonic()
        return found

    return judged


def at_rest(cluster: Any, versions: dict[str, str], edition: Edition) -> bool:
    """Whether every monitor has acted upon the last change of what it watches, and all Pods are back."""
    for found in cluster.list("configmonitors"):
        status = found.get("status") or {}
        restart = status.get("restart") or {}
        last = versions.get(found["spec"]["configMap"])
        if not status.get("observedHash") or restart.get("pending") or (last and restart.get("version") != last):
            return False
    pods = [p for p in cluster.list("pods") if not p["metadata"].get("deletionTimestamp")]
    return len(pods) == edition.groups * edition.size and all(
        p.get("status", {}).get("phase") == "Running" for p in pods
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "edition"),
    [
        pytest.param(embedded, SMALL, id="small"),
        pytest.param(embedded, FULL, id="full", marks=pytest.mark.chaos),
        pytest.param(real, REAL, id="real", marks=[pytest.mark.chaos, CONTROL_PLANE]),
        pytest.param(real, FULL, id="full-real", marks=[pytest.mark.chaos, CONTROL_PLANE]),
    ],
)
def test_every_pod_restarts_once_for_each_change_whatever_is_killed(start, edition, tmp_path):
    rng = random.Random(SEED)
    objects, monitors = cast_of(edition, rng)
    versions: dict[str, str] = {}
    with start() as cluster, cluster.test("default"):
        cluster.apply(CRD)
        for first in range(0, len(objects), 250):
            cluster.apply(*objects[first : first + 250])
        fleet = Fleet(cluster, tmp_path)
        try:
            watched = seldom(lambda: at_rest(cluster, {}, edition), edition.look)
            eventually(watched, within=edition.within, what="all is watched")
            if start is embedded:
                cluster.faults.seed(SEED)
                cluster.faults.add(
                    internal_error(resource="pods", verb="create", probability=0.05, times=edition.changes),
                    unavailable(resource="configmonitors", verb="patch", probability=0.05, times=edition.changes),
                    conflict(resource="configmonitors", verb="patch", probability=0.05, times=edition.changes),
                    throttled(1, resource="pods", verb="list", probability=0.05, times=edition.changes),
                    dropped_watch(0.5, probability=0.2, times=edition.kills),
                )
            each = max(1, edition.changes // edition.kills)
            for change in range(edition.changes):
                name = f"config-{rng.randrange(edition.configs)}"
                changed = cluster.patch("configmap", name, {"data": {"value": f"value-{change}"}})
                versions[name] = changed["metadata"]["resourceVersion"]
                if change % each == each - 1:
                    # The moment of death is the experiment: somewhere in the middle of the restarts.
                    time.sleep(rng.uniform(0.0, 1.0))
                    fleet.kill()
                    if rng.random() < 0.5:
                        cluster.restart_apiserver()
                    fleet.start()
                elif rng.random() < 0.3:
                    time.sleep(rng.uniform(0.0, 0.5))
            rest = seldom(lambda: at_rest(cluster, versions, edition), edition.look)
            eventually(rest, within=edition.within, what="all has come to rest")
        except BaseException:
            print(fleet.log())
            raise
        finally:
            fleet.close()
        case = hear(read_audit_log(cluster.audit_log), fleet.users)
    assert sum(map(len, case.changes.values())) == edition.changes
    assert case.evictions >= edition.changes, "hardly anything was restarted, so nothing was proved"
    wrong = verdict(case, monitors)
    assert not wrong, f"{len(wrong)} of {case.evictions} restarts:\n" + "\n".join(wrong[:20])


WEB = Monitor("m", "config", {"app": "web"})
OLD = Life("web-0", "old", 10, {"app": "web"})
NEW = Life("web-0", "new", 40, {"app": "web"})


def case_of(*lives: Life, plans: Any = ((20, 30, 3),)) -> Case:
    return Case({life.uid: life for life in lives}, {"config": [20]}, {"m": list(plans)})


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (case_of(replace(OLD, evictions=[5]), NEW), None),
        (case_of(OLD), "has not been restarted since the change at 20"),
        (case_of(replace(OLD, evictions=[5, 6]), NEW), "was evicted 2 times"),
        (case_of(replace(OLD, evictions=[5]), replace(NEW, evictions=[9])), "was restarted for no change"),
        (case_of(replace(OLD, evictions=[2]), NEW), "was restarted for no change"),
        (case_of(OLD, plans=()), "nobody has acted upon the change"),
    ],
)
def test_the_judge_convicts_whom_it_should(case, words):
    wrong = verdict(case, [WEB])
    assert (not wrong) if words is None else any(words in one for one in wrong)
