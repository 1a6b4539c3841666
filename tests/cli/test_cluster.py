"""`steersman cluster` as a process: start, stop, status and load, for people and for scripts."""

import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {size: '%s'}\n"
CRD = """
apiVersion: example.com/v1
kind: Boat
metadata: {name: dory}
spec: {length: 4}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: charts, namespace: harbour}
---
apiVersion: v1
kind: Namespace
metadata: {name: harbour}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  names: {kind: Boat, plural: boats, singular: boat}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {length: {type: integer, maximum: 10}}}
"""


def eventually(condition, what, within=120.0):
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, f"after {within:g} s still not: {what}"
        time.sleep(0.05)
    return found


class Shell:
    """A user's terminal: a home and a state directory of its own, and every process ended with the test."""

    def __init__(self, home: Path):
        self.home = home
        self.scratch = home / "tmp"
        self.scratch.mkdir()
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("STEERSMAN_", "KUBE"))},
            "HOME": str(home),
            "TMPDIR": str(self.scratch),
            "XDG_STATE_HOME": str(home / "state"),
            "COLUMNS": "200",
            "TERM": "dumb",
        }
        self.background: list[subprocess.Popen[str]] = []

    def words(self, *words):
        return [sys.executable, "-m", "steersman", *map(str, words)]

    def run(self, *words, text=None):
        done = subprocess.run(
            self.words(*words), cwd=self.home, env=self.environment, input=text, capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        return done

    def start(self, *words):
        process = subprocess.Popen(
            self.words(*words), cwd=self.home, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.background.append(process)
        return process

    def clusters(self):
        return {c["name"]: c for c in json.loads(self.run("cluster", "status", "-o", "json").stdout)}

    def close(self):
        if any((self.home / "state").glob("steersman/clusters/*")):
            self.run("cluster", "stop", "--all")
        for process in self.background:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One detached cluster for all tests that only use it."""
    made = Shell(tmp_path_factory.mktemp("home"))
    assert made.run("cluster", "start", "--detach", "--nodes", "2").returncode == 0
    yield made
    made.close()


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


def wait_ready(process):
    line = process.stdout.readline()
    assert "is ready at https://127.0.0.1:" in line, line + (process.stdout.read() if process.poll() else "")
    return line


class TestStarting:
    @pytest.mark.slow
    def test_the_foreground_tells_how_to_use_it_and_ends_with_ctrl_c(self, shell):
        process = shell.start("cluster", "start")
        wait_ready(process)
        assert shell.clusters()["default"]["state"] == "running"
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        assert process.wait(20) == 0
        kubeconfig = next(line.split("=")[1] for line in said.splitlines() if "export KUBECONFIG=" in line)
        assert "Ctrl-C stops it" in said
        assert said.endswith("stopped\n")
        assert not Path(kubeconfig).exists()
        assert shell.clusters() == {}

    @pytest.mark.slow
    def test_a_detached_one_is_ready_when_the_command_returns_and_its_files_are_private(self, shell):
        started = json.loads(shell.run("cluster", "start", "-d", "--name", "two", "-o", "json").stdout)
        assert started["ready"] is True
        directory = Path(started["kubeconfig"]).parent
        assert mode(directory) == 0o700
        assert {mode(file) for file in directory.iterdir()} == {0o600}
        seen = shell.clusters()["two"]
        assert (seen["state"], seen["detached"], seen["pid"]) == ("running", True, started["pid"])
        assert seen["objects"] > 50
        stopped = shell.run("cluster", "stop", "two")
        assert (stopped.returncode, stopped.stdout) == (0, "cluster 'two' is stopped\n")
        assert not directory.exists()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(started["url"].rpartition(":")[2])))

    @pytest.mark.slow
    def test_a_name_that_runs_is_not_started_again(self, running):
        for how in ((), ("--detach",)):
            again = running.run("cluster", "start", *how)
            assert again.returncode == 1
            assert "error: cluster 'default' runs already (process " in again.stderr
            assert "--name" in again.stderr
        assert running.clusters()["default"]["state"] == "running"

    @pytest.mark.slow
    def test_a_port_that_is_taken_is_told(self, shell):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            for how in ((), ("--detach",)):
                refused = shell.run("cluster", "start", "--port", port, *how)
                assert refused.returncode == 1
                assert f"error: port {port} on 127.0.0.1 is taken: choose another --port" in refused.stderr
        assert shell.clusters() == {}

    @pytest.mark.slow
    def test_data_outlive_a_kill_and_are_for_one_cluster_at_a_time(self, shell):
        assert shell.run("cluster", "start", "-d", "--data", "kept", "--no-controllers").returncode == 0
        (shell.home / "map.yaml").write_text(CONFIG_MAP % ("kept", 1))
        assert shell.run("cluster", "load", "map.yaml").stdout == "configmap/kept created\n"
        second = shell.run("cluster", "start", "--name", "second", "--data", "kept")
        assert second.returncode == 1
        assert "is in use by another cluster" in second.stderr
        os.kill(shell.clusters()["default"]["pid"], signal.SIGKILL)
        eventually(lambda: shell.clusters()["default"]["state"] == "killed", "it is seen that it was killed")
        assert "it was killed" in shell.run("cluster", "status").stdout
        load = shell.run("cluster", "load", "map.yaml")
        assert load.returncode == 1
        assert "was killed; start it again with `steersman cluster start --data " in load.stderr
        assert shell.run("cluster", "start", "-d", "--data", "kept", "--no-controllers").returncode == 0
        assert shell.run("cluster", "load", "map.yaml").stdout == "configmap/kept unchanged\n"

    @pytest.mark.slow
    def test_what_a_killed_cluster_left_is_removed_by_stop(self, shell):
        shell.run("cluster", "start", "-d", "--no-controllers", "--nodes", "0")
        os.kill(shell.clusters()["default"]["pid"], signal.SIGKILL)
        eventually(lambda: shell.clusters()["default"]["state"] == "killed", "it is seen that it was killed")
        assert shell.run("cluster", "status", "default").returncode == 1
        assert "had been killed" in shell.run("cluster", "stop").stdout
        assert shell.clusters() == {}
        assert list(shell.scratch.iterdir()) == []

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("words", "code", "told"),
        [
            (("--name", "Not A Name"), 1, "cannot name a cluster"),
            (("--nodes", "-1"), 2, "--nodes"),
            (("--images", "missing.yaml", "--node-kind", "process"), 2, "missing.yaml"),
            (("--node-kind", "quantum"), 2, "quantum"),
        ],
    )
    def test_what_cannot_be_is_refused(self, shell, words, code, told):
        refused = shell.run("cluster", "start", *words)
        assert refused.returncode == code
        assert told in refused.stderr

    @pytest.mark.slow
    def test_images_are_for_process_nodes(self, shell):
        (shell.home / "images.yaml").write_text("images: {}\n")
        refused = shell.run("cluster", "start", "--images", "images.yaml")
        assert refused.returncode == 2
        assert "--node-kind process" in refused.stderr

    @pytest.mark.slow
    def test_an_images_file_that_makes_no_sense_is_told_at_once(self, shell):
        (shell.home / "images.yaml").write_text("just text\n")
        refused = shell.run("cluster", "start", "--images", "images.yaml", "--node-kind", "process")
        assert refused.returncode == 1
        assert "images.yaml: it has to be a map with images: at the top" in refused.stderr

    @pytest.mark.slow
    def test_data_that_are_no_database_are_left_alone(self, shell):
        (shell.home / "junk").mkdir()
        (shell.home / "junk" / "cluster.db").write_bytes(b"not a database, but long enough to be looked at" * 50)
        refused = shell.run("cluster", "start", "--data", "junk")
        assert refused.returncode == 1
        assert "cluster.db is no data of a cluster: file is not a database" in refused.stderr

    @pytest.mark.slow
    def test_a_place_that_cannot_be_written_is_told(self, shell):
        (shell.home / "file").write_text("")
        refused = shell.run("cluster", "start", "--data", "file/data")
        assert refused.returncode == 1
        assert "file/data" in refused.stderr
        shell.environment["XDG_STATE_HOME"] = str(shell.home / "file")
        for how in ((), ("--detach",)):
            refused = shell.run("cluster", "start", *how)
            assert refused.returncode == 1
            assert "Set XDG_STATE_HOME to a directory that can be written" in refused.stderr
        shell.environment["XDG_STATE_HOME"] = str(shell.home / "state")

    @pytest.mark.slow
    def test_an_audit_log_holds_what_was_asked(self, shell):
        assert shell.run("cluster", "start", "-d", "--no-controllers", "--audit-log", "audit.log").returncode == 0
        shell.clusters()
        lines = [json.loads(line) for line in (shell.home / "audit.log").read_text().splitlines()]
        assert {"audit.k8s.io/v1"} == {line["apiVersion"] for line in lines}
        assert any(line["requestURI"].startswith("/apis") for line in lines)
        assert mode(shell.home / "audit.log") == 0o600


class TestKubeconfig:
    OTHER = """\
apiVersion: v1
kind: Config
current-context: work
clusters: [{name: work, cluster: {server: 'https://work.example'}}]
users: [{name: me, user: {token: secret}}]
contexts: [{name: work, context: {cluster: work, user: me}}]
"""

    @pytest.mark.slow
    def test_a_context_is_merged_and_taken_out_again(self, shell):
        path = shell.home / "config"
        path.write_text(self.OTHER)
        path.chmod(0o640)
        words = ("cluster", "start", "-d", "--no-controllers", "--nodes", "0", "--kubeconfig", path)
        assert "kubectl --context steersman get nodes" in shell.run(*words).stdout
        merged = yaml.safe_load(path.read_text())
        assert [c["name"] for c in merged["contexts"]] == ["work", "steersman"]
        assert merged["current-context"] == "steersman"
        assert merged["users"][0] == {"name": "me", "user": {"token": "secret"}}
        assert mode(path) == 0o640
        shell.run("cluster", "stop")
        assert yaml.safe_load(path.read_text()) == yaml.safe_load(self.OTHER)

    @pytest.mark.slow
    def test_a_new_file_is_private(self, shell):
        path = shell.home / "new" / "config"
        shell.run("cluster", "start", "-d", "--no-controllers", "--nodes", "0", "--kubeconfig", path, "--name", "a")
        assert mode(path) == 0o600
        assert yaml.safe_load(path.read_text())["current-context"] == "steersman-a"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (OTHER.replace("name: work", "name: steersman"), "is not of Steersman's making"),
            ("{", "is not YAML"),
            ("just text", "is not a kubeconfig"),
        ],
    )
    def test_what_is_not_ours_or_not_understood_is_left_alone(self, shell, content, told):
        path = shell.home / "config"
        path.write_text(content)
        refused = shell.run("cluster", "start", "--no-controllers", "--nodes", "0", "--kubeconfig", path)
        assert refused.returncode == 1
        assert told in refused.stderr
        assert path.read_text() == content


class TestLoading:
    @pytest.mark.slow
    def test_objects_are_applied_in_an_order_that_works_and_told_line_by_line(self, running):
        (running.home / "all.yaml").write_text(CRD)
        first = running.run("cluster", "load", "all.yaml")
        assert first.returncode == 0, first.stderr
        assert first.stdout.splitlines() == [
            "namespace/harbour created",
            "customresourcedefinition.apiextensions.k8s.io/boats.example.com created",
            "configmap/charts created in harbour",
            "boat.example.com/dory created",
        ]
        (running.home / "all.yaml").write_text(CRD.replace("length: 4", "length: 5"))
        again = running.run("cluster", "load", "-f", "all.yaml")
        assert "boat.example.com/dory configured" in again.stdout
        assert "configmap/charts unchanged in harbour" in again.stdout

    @pytest.mark.slow
    def test_every_failure_is_told_where_it_is_and_the_rest_is_applied(self, running):
        directory = running.home / "mixed"
        directory.mkdir()
        (directory / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not Valid}\n")
        (directory / "b.yaml").write_text("apiVersion: nowhere.example/v1\nkind: Thing\nmetadata: {name: x}\n")
        (directory / "c.yaml").write_text("\n\n" + CONFIG_MAP % ("good", 1))
        (directory / "d.yaml").write_text("kind: [unclosed\n")
        (directory / "e.json").write_text('{"kind": "ConfigMap"}')
        (directory / "kustomization.yaml").write_text(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        )
        done = running.run("cluster", "load", "mixed", "missing.yaml")
        assert done.returncode == 1
        assert done.stdout == "configmap/good created\n"
        told = done.stderr
        assert "error: mixed/a.yaml:1: configmap/Not Valid: ConfigMap" in told
        assert 'error: mixed/b.yaml:1: thing/x: no matches for kind "Thing" in version "nowhere.example/v1"' in told
        assert "error: mixed/d.yaml:2: not YAML" in told
        assert "error: mixed/e.json:1: a manifest needs apiVersion and kind; missing: apiVersion" in told
        assert "error: missing.yaml: there is no such file or directory" in told
        assert "5 of 6 failed" in told

    @pytest.mark.slow
    def test_standard_input_and_lists_and_json_work(self, running):
        items = [yaml.safe_load(CONFIG_MAP % (f"item-{n}", n)) for n in range(2)]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        done = running.run("cluster", "load", "-", "-n", "kube-public", "-o", "json", text=text)
        assert done.returncode == 0
        told = json.loads(done.stdout)
        assert [(t["name"], t["namespace"], t["result"]) for t in told] == [
            ("item-0", "kube-public", "created"),
            ("item-1", "kube-public", "created"),
        ]

    def test_nothing_to_load_is_wrong_use(self, running):
        assert running.run("cluster", "load").returncode == 2


class TestTalking:
    def test_status_shows_what_runs(self, running):
        header, row = running.run("cluster", "status").stdout.splitlines()
        assert header.split() == ["NAME", "STATE", "SINCE", "VERSION", "SERVER", "NODES", "OBJECTS", "DATA", "PID"]
        assert row.startswith("default   running")
        assert "2 simulated" in row

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "words",
        [
            ("stop",),
            ("status", "nobody"),
            ("load", "x.yaml"),
            ("stop", "nobody"),
            ("stop", "--name", "nobody"),
            ("status", "--name", "nobody"),
        ],
    )
    def test_a_cluster_that_does_not_run_is_an_error_with_a_way_out(self, shell, words):
        done = shell.run("cluster", *words)
        assert done.returncode == 1
        assert "runs. Start it with `steersman cluster start" in done.stderr

    def test_two_names_of_clusters_are_one_too_many(self, shell):
        done = shell.run("cluster", "stop", "one", "--name", "two")
        assert done.returncode == 2
        assert "two clusters are named: one and --name two" in done.stderr

    def test_status_and_stop_all_do_not_mind_that_nothing_runs(self, shell):
        assert shell.run("cluster", "status").stdout.startswith("no cluster runs")
        assert shell.run("cluster", "stop", "--all").returncode == 0

    def test_other_names_are_hinted_at(self, running):
        done = running.run("cluster", "stop", "nobody")
        assert "there is default" in done.stderr

    @pytest.mark.slow
    @pytest.mark.parametrize("command", ["start", "stop", "status", "load"])
    def test_help_teaches_with_examples(self, shell, command):
        done = shell.run("cluster", command, "--help")
        assert done.returncode == 0
        assert f"steersman cluster {command}" in done.stdout

    @pytest.mark.slow
    def test_a_second_ctrl_c_aborts(self, shell):
        process = shell.start("cluster", "start", "--no-controllers", "--nodes", "0")
        wait_ready(process)
        process.send_signal(signal.SIGSTOP)  # both signals are there before it can act on the first
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        assert process.wait(20) == 130


@pytest.mark.slow
def test_data_are_a_private_database(shell):
    shell.run("cluster", "start", "-d", "--data", "kept", "--no-controllers", "--nodes", "0")
    shell.run("cluster", "stop")
    assert mode(shell.home / "kept" / "cluster.db") == 0o600
    with sqlite3.connect(shell.home / "kept" / "cluster.db") as db:
        assert db.execute("select count(*) from objects").fetchone()[0] > 10
