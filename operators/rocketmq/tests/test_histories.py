"""Histories of messages on real brokers under faults: every acknowledged message is consumed, in order.

`hack/check_histories.py` runs many seeds.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from steersman.testing import EmbeddedCluster

from rocketmq.brokers import reconciler
from tests import process_cluster
from tests.faults import FaultKind, faults_of
from tests.injection import KIND, Shop, other_version, run_history
from tests.operator_crashes import CrashPoints
from tests.process_cluster import MODES, group_of, operated, running, sends, started, status, until
from tests.remoting_servers import NEEDS_SERVERS, server_files
from tests.workload import Workload

SHORT_SEED = 2
SCRIPT = importlib.util.spec_from_file_location(
    "check_histories", Path(__file__).parents[1] / "hack/check_histories.py"
)
assert SCRIPT is not None
assert SCRIPT.loader is not None
check_histories = importlib.util.module_from_spec(SCRIPT)
SCRIPT.loader.exec_module(check_histories)


@pytest.fixture(scope="module", params=MODES)
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A Broker of each mode, with one group for the faults of all tests."""
    files = server_files()
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(process_cluster.process_cluster(tmp_path_factory.mktemp("images"), nodes=3))
        except (OSError, files.ServerFilesError) as problem:
            pytest.skip(f"RocketMQ cannot run in Pods here: {problem}")
        found = stack.enter_context(operated(cluster, f"histories-{zlib.crc32(request.param.encode())}"))
        yield Shop(cluster, found, started(cluster, found.ports, **MODES[request.param]))


@pytest.mark.slow
@NEEDS_SERVERS
def test_a_short_history_loses_no_acknowledged_message(shop: Shop):
    chosen = faults_of(SHORT_SEED, longest_seconds=4)
    assert {(each.kind, each.of_master) for each in chosen} == {(FaultKind.KILL, True), (FaultKind.PARTITION_IN, True)}
    assert all(each.operator_killed_after is not None for each in chosen)
    found = run_history(shop, f"orders-{SHORT_SEED}", chosen)
    assert found.report.sound, ("; ".join(map(str, chosen)), found)


@pytest.mark.soak
@pytest.mark.slow
@NEEDS_SERVERS
def test_the_operator_is_killed_before_and_after_each_step_and_no_acknowledged_message_is_lost(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    cluster, operator, routes = shop.cluster, shop.operator, shop.routes
    points = CrashPoints()
    monkeypatch.setattr(reconciler, "Effects", points.effects())
    before = member_pods(cluster)

    def reached(holds: Callable[[], object], what: str) -> None:
        def held() -> object:
            points.kill_held(operator)
            return holds()

        until(held, lambda: f"{what}, the operator was killed at {points.reached}: {status(cluster)}", seconds=600)

    with Workload(routes, [("mq-0", 0)]) as workload:
        sends(workload)
        changed = {"fileReservedTime": "33", "sendMessageThreadPoolNums": "7"}
        cluster.patch(KIND, "mq", {"spec": {"config": changed}})
        reached(
            lambda: running(cluster) and not set(before.values()) & set(member_pods(cluster).values()),
            "the members do not restart",
        )
        cluster.patch(KIND, "mq", {"spec": {"size": 2}})
        reached(lambda: len(running(cluster).get("groups", ())) == 2, "the second group does not join")
        cluster.patch(KIND, "mq", {"spec": {"size": 1}})
        reached(lambda: len(running(cluster).get("groups", ())) == 1, "the second group does not leave")
        steps = ["ApplyMember", "Configure", "CopyTo", "HandOver", "RemoveGroup"]
        # The members of a group of DLedger are fixed.
        if cluster.get(KIND, "mq")["spec"]["clusterMode"] != "DLEDGER":
            steps.append("RemoveMember")
            for replicas in (2, 1):
                cluster.patch(KIND, "mq", {"spec": {"replicaPerGroup": replicas}})
                reached(
                    lambda replicas=replicas: len(running(cluster) and group_of(cluster)["members"]) == replicas + 1,
                    f"the group does not have {replicas + 1} members",
                )
        sends(workload)
    report = workload.report()
    assert report.sound, report
    assert points.reached == {(step, when) for step in steps for when in ("before", "after")}


def member_pods(cluster: EmbeddedCluster) -> dict[str, str]:
    """Return the uid of the Pod of each member."""
    pods = cluster.list("pods", labels="rocketmq.daocloud.io/broker=mq")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def test_a_seed_chooses_the_same_faults_each_time():
    assert faults_of(7) == faults_of(7)
    assert faults_of(7) != faults_of(8)


def test_the_seeds_of_the_long_run_have_every_kind_of_fault_with_and_without_the_operator():
    chosen = [fault for seed in range(25) for fault in faults_of(seed)]
    assert {fault.kind for fault in chosen} == set(FaultKind)
    assert {(fault.of_master, fault.operator_killed_after is None) for fault in chosen} == set(
        itertools.product((True, False), repeat=2)
    )


def test_an_upgrade_changes_between_the_two_versions():
    assert other_version("rocketmq:5.4.0") == "rocketmq:5.5.0"
    assert other_version("rocketmq:5.5.0") == "rocketmq:5.4.0"


def test_the_page_has_the_results_of_the_reports():
    """`python hack/check_histories.py --render` mends it."""
    reports = [check_histories.read_report(mode) for mode in check_histories.MODES]
    assert check_histories.PAGE.read_text() == check_histories.render(reports)
    runs = [each for report in reports for each in report["runs"]]
    assert [str(fault) for each in runs for fault in faults_of(each["seed"])] == [
        fault for each in runs for fault in each["faults"]
    ]


class FakeHistories:
    """Histories that end at once; each call of `run` is one cluster."""

    def __init__(self) -> None:
        self.clusters: list[list[int]] = []
        self.interrupted_at: int | None = None
        self.unhealed: set[int] = set()
        self.lossy: set[int] = set()

    def run(self, mode: str, seeds: Sequence[int]) -> Iterator[dict[str, object]]:
        self.clusters.append(list(seeds))
        for seed in tuple(seeds):
            if seed == self.interrupted_at:
                raise KeyboardInterrupt
            faults = {"seed": seed, "faults": [str(each) for each in faults_of(seed)]}
            if seed in self.unhealed:
                yield faults | {"problem": "the group does not heal"}
                return
            lost = int(seed in self.lossy)
            yield faults | {"acknowledged": 100 + seed, "lost": lost, "disordered": 0, "duplicates": 1, "gap": 0.5}


@pytest.fixture
def histories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHistories:
    """The results that the script gets instead of those of real servers."""
    found = FakeHistories()
    monkeypatch.setattr(check_histories, "report_of", lambda mode: tmp_path / f"{mode}.json")
    monkeypatch.setattr(check_histories, "PAGE", tmp_path / "histories.md")
    monkeypatch.setattr(check_histories, "_results_in_one_cluster", found.run)
    return found


def test_an_interrupted_run_keeps_its_results_and_continues_with_the_other_seeds(histories: FakeHistories):
    histories.interrupted_at = 2
    with pytest.raises(KeyboardInterrupt):
        check_histories.run("DLEDGER", range(4), "")
    histories.interrupted_at = None
    assert check_histories.run("DLEDGER", range(4), "busy")
    assert histories.clusters == [[0, 1, 2, 3], [2, 3]]
    text = check_histories.PAGE.read_text()
    assert "4 seeds, 406 acknowledged messages: 0 lost, 0 out of order." in text
    assert "embedded cluster; busy." in text


def test_a_run_with_a_lost_message_fails_each_time(histories: FakeHistories):
    histories.lossy = {1}
    assert not check_histories.run("DLEDGER", range(2), "")
    assert not check_histories.run("DLEDGER", range(2), ""), "the report still has the lost message"
    assert histories.clusters == [[0, 1]]
    assert ": 1 lost, 0 out of order." in check_histories.PAGE.read_text()


def test_the_report_keeps_the_losses_of_a_seed_that_runs_again(histories: FakeHistories):
    histories.lossy = {1}
    assert not check_histories.run("DLEDGER", range(2), "")
    histories.lossy.clear()
    assert check_histories.run("DLEDGER", [1], "", again=True)
    text = check_histories.PAGE.read_text()
    assert ": 0 lost, 0 out of order." in text
    assert "An earlier run of seed 1 had 1 messages lost or out of order" in text


def test_a_seed_whose_group_does_not_heal_is_reported_and_runs_again(histories: FakeHistories):
    histories.unhealed = {1}
    assert not check_histories.run("CONTROLLER", range(3), "")
    assert histories.clusters == [[0, 1, 2], [2]], "the next seed gets a new cluster"
    assert "Seed 1 did not end" in check_histories.PAGE.read_text()
    histories.unhealed.clear()
    assert check_histories.run("CONTROLLER", range(3), "")
    assert histories.clusters[2:] == [[1]]
    text = check_histories.PAGE.read_text()
    assert "Seed 1 did not end" not in text
    assert "1 earlier attempt did not end" in text


def test_seeds_run_again_on_demand_and_the_results_of_other_seeds_stay(histories: FakeHistories):
    assert check_histories.run("DLEDGER", range(3), "")
    histories.interrupted_at = 1
    with pytest.raises(KeyboardInterrupt):
        check_histories.run("DLEDGER", range(2), "quiet", again=True)
    assert [each["seed"] for each in check_histories.read_report("DLEDGER")["runs"]] == [0, 2]
    histories.interrupted_at = None
    assert check_histories.run("DLEDGER", range(3), "quiet")
    assert histories.clusters == [[0, 1, 2], [0, 1], [1]]


def test_no_seed_begins_after_the_time_of_a_run(histories: FakeHistories):
    assert check_histories.run("DLEDGER", range(3), "", minutes=0)
    assert [each["seed"] for each in check_histories.read_report("DLEDGER")["runs"]] == [0]
