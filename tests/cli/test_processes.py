"""`steersman run` as a process: signals, exit codes, reload, and two replicas on a real API server."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

APP = """
import time
from steersman import Context, ObjectMeta, Operator, SyncContext
from steersman.k8s import ConfigMap
operator = Operator("process-test")

def of_interest(obj):
    return obj.metadata.name.startswith("in-")

def of_threads(obj):
    return obj.metadata.name == "thread"

@operator.controller(name="threads", where=of_threads)
def in_thread(obj: ConfigMap, ctx: SyncContext) -> None:
    ctx.log.info("blocking in a thread")
    time.sleep(3600)

@operator.controller(where=of_interest)
async def reconcile(obj: ConfigMap, ctx: Context) -> None:
    if obj.data.get("block"):
        time.sleep(3600)
    name = "out-" + obj.metadata.name.removeprefix("in-")
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=name), data=obj.data), owned=False)
"""


def eventually(condition, what, within=120.0):
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, f"after {within:g} s still not: {what}"
        time.sleep(0.05)
    return found


class Process:
    def __init__(self, directory: Path, *words: str, **environment: str) -> None:
        self.log = directory / f"log-{time.monotonic_ns()}"
        self._out = self.log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "steersman", "run", "app_in_process:operator", *words],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._out,
            env={
                **os.environ,
                "STEERSMAN_METRICS_BIND_ADDRESS": "0",
                "STEERSMAN_HEALTH_PROBE_BIND_ADDRESS": "0",
                **environment,
            },
        )

    def says(self, text):
        return text in self.log.read_text(errors="replace")

    def send(self, number):
        self.process.send_signal(number)

    def ends(self, within=120):
        return self.process.wait(within)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._out.close()


@pytest.fixture
def start(tmp_path):
    (tmp_path / "app_in_process.py").write_text(APP)
    processes = []

    def begin(*words, **environment):
        processes.append(Process(tmp_path, *words, **environment))
        return processes[-1]

    yield begin
    for process in processes:
        process.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_cleanly_even_where_no_server_answers(start, number):
    process = start("--server=http://127.0.0.1:1")
    eventually(lambda: process.says("api_server_unusable"), "it waits for the server")
    process.send(number)
    assert process.ends() == 0
    assert process.says("operator_stopped")
    assert not process.says("Traceback")


@pytest.mark.slow
def test_reload_restarts_on_a_change_and_survives_a_syntax_error(start, tmp_path):
    module = tmp_path / "app_in_process.py"
    module.write_text("def broken(:\n")
    process = start("--server=http://127.0.0.1:1", "--reload")
    eventually(lambda: process.says("has ended with code 1; waiting for a change"), "the error is reported")
    assert process.says("SyntaxError")
    module.write_text(APP)
    eventually(lambda: process.says("changed: app_in_process.py; restarting"), "the change is seen")
    eventually(lambda: process.says("api_server_unusable"), "the operator runs")
    process.send(signal.SIGINT)
    assert process.ends() == 0
    assert process.says("operator_stopped")


@pytest.mark.realcluster
class TestOnARealServer:
    TERMS = ("--lease-duration=3s", "--renew-deadline=2s", "--retry-period=500ms")

    @pytest.fixture
    def options(self, control_plane, namespace):
        return (
            f"--kubeconfig={control_plane.kubeconfig}",
            "-n",
            namespace,
            f"--lease-namespace={namespace}",
            *self.TERMS,
        )

    @pytest.fixture
    def cluster(self, control_plane, namespace):
        class Cluster:
            def put(self, name, **data):
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
                control_plane.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(body))

            def has(self, name):
                maps = control_plane.call("GET", f"/api/v1/namespaces/{namespace}/configmaps")["items"]
                return any(m["metadata"]["name"] == name for m in maps)

            def holder(self):
                leases = control_plane.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
                return [lease["spec"].get("holderIdentity", "") for lease in leases["items"]]

        return Cluster()

    def test_sigterm_releases_the_lease_and_ends_with_zero(self, start, options, cluster):
        """L3: the lease is free when the process has ended."""
        process = start(*options)
        cluster.put("in-a", x="1")
        eventually(lambda: cluster.has("out-a"), "it reconciles")
        assert cluster.holder() != [""]
        process.send(signal.SIGTERM)
        assert process.ends() == 0
        assert cluster.holder() == [""]

    def test_a_killed_leader_is_followed_by_the_standby_and_nothing_is_lost(self, start, options, cluster):
        """L1: after SIGKILL the standby waits out the lease, takes over, and completes its work."""
        leader = start(*options)
        eventually(lambda: leader.says("leader_elected"), "a leader")
        standby = start(*options)
        eventually(lambda: standby.says("another_replica_leads"), "a standby")
        leader.send(signal.SIGKILL)
        cluster.put("in-b", x="1")
        eventually(lambda: cluster.has("out-b"), "the standby reconciles")
        assert standby.says("leader_elected")

    def test_a_restarted_container_takes_its_own_lease_and_a_second_process_beside_it_does_not(
        self, start, options, cluster
    ):
        """L1: a process of the same Pod waits while the leader lives, and leads at once when it was killed."""
        terms = ("--lease-duration=600s", "--renew-deadline=400s")
        pod = {"STEERSMAN_POD_UID": str(uuid.uuid4())}
        leader = start(*options, *terms, **pod)
        eventually(lambda: leader.says("leader_elected"), "a leader")
        beside = start(*options, *terms, **pod)
        eventually(lambda: beside.says("another_replica_leads"), "a second process is a standby")
        assert beside.says("pod_lock_unavailable")
        beside.send(signal.SIGKILL)
        leader.send(signal.SIGKILL)
        leader.ends()
        again = start(*options, *terms, **pod)
        cluster.put("in-f", x="1")
        eventually(lambda: cluster.has("out-f"), "it leads, though the lease lasts ten minutes", within=60)
        assert len(cluster.holder()) == 1
        assert again.says(cluster.holder()[0])

    def test_ctrl_c_twice_aborts_even_when_the_loop_is_blocked(self, start, options, cluster):
        process = start(*options)
        eventually(lambda: process.says("operator_started"), "it runs")
        cluster.put("in-c", block="yes")
        eventually(lambda: process.says("event_loop_blocked"), "the stall is reported")
        process.send(signal.SIGINT)
        time.sleep(0.2)
        process.send(signal.SIGINT)
        assert process.ends(10) == 130

    def test_a_thread_that_blocks_for_ever_does_not_keep_the_process_from_ending(self, start, options, cluster):
        """R6: a blocking reconcile that outlasts the grace period is left behind; the lease is released."""
        process = start(*options, "--shutdown-grace=200ms")
        cluster.put("thread")
        eventually(lambda: process.says("blocking in a thread"), "it blocks")
        process.send(signal.SIGTERM)
        assert process.ends(15) == 0
        assert cluster.holder() == [""]

    def test_a_stopped_process_that_wakes_up_too_late_writes_nothing_and_ends(self, start, options, cluster):
        """L2: SIGSTOP past the lease, a change meanwhile, SIGCONT: the old leader's gate is shut."""
        old = start(*options)
        cluster.put("in-d", x="1")
        eventually(lambda: cluster.has("out-d"), "it reconciles")
        old.send(signal.SIGSTOP)
        new = start(*options)
        eventually(lambda: new.says("leader_elected"), "the other takes over")
        old.send(signal.SIGCONT)
        assert old.ends() == 1
        assert old.says("this replica no longer leads")
        cluster.put("in-e", x="1")
        eventually(lambda: cluster.has("out-e"), "the new leader works")
