"""`steersman dev` as a process: cluster, CRDs, operator, reload, the view on a terminal, and nothing left behind."""

import asyncio
import fcntl
import io
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import threading

import pytest
from rich.console import Console

from steersman.cli.dev.logfile import LogFile
from steersman.cli.dev.state import DevState, forest, log_line, summary
from steersman.cli.dev.view import View
from steersman.client import Client
from steersman.client.config import load_config
from tests.cli.test_cluster import CRD, Shell, eventually

APP = """
from typing import Annotated
from steersman import Context, Model, ObjectMeta, Operator, Resource
from steersman.k8s import ConfigMap

class BoatSpec(Model):
    length: int = 0

class BoatStatus(Model):
    phase: str = ""

class Boat(Resource, group="example.com", version="v1"):
    spec: BoatSpec
    status: BoatStatus = BoatStatus()

operator = Operator("boats")

@operator.controller(owns=[ConfigMap])
async def reconcile(boat: Boat, ctx: Context) -> None:
    ctx.log.info("WORD seen")
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name="log-of-" + boat.metadata.name), data={"w": "WORD"}))
"""


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path)
    (tmp_path / "boats_app.py").write_text(APP.replace("WORD", "first"))
    (tmp_path / "config" / "crd").mkdir(parents=True)
    boat, _, _, definition = CRD.split("---")
    (tmp_path / "config" / "crd" / "boats.yaml").write_text(definition)
    (tmp_path / "boat.yaml").write_text(boat)
    yield made
    made.close()


class Output:
    """What a process prints, as it comes."""

    def __init__(self, descriptor):
        self.seen = bytearray()
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            while data := os.read(self._descriptor, 65536):
                self.seen += data
        except OSError:
            pass

    def says(self, text):
        return text.encode() in self.seen

    def end(self):
        self._thread.join(5)
        return self.seen.decode(errors="replace")


def children(pid):
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_it_installs_runs_reloads_and_leaves_nothing_behind(shell):
    process = shell.start("dev", "boats_app:operator", "--load", "boat.yaml")
    output = Output(process.stdout.fileno())
    eventually(lambda: output.says("first seen"), "the operator works", within=180)
    assert output.says("boats.example.com created")
    assert output.says("export KUBECONFIG=")
    assert shell.clusters()["dev"]["state"] == "running"
    (shell.home / "boats_app.py").write_text("def broken(:\n")
    eventually(lambda: output.says("ended with code 1; waiting for a change"), "the error is told")
    (shell.home / "boats_app.py").write_text(APP.replace("WORD", "second"))
    eventually(lambda: output.says("second seen"), "the new operator works")
    (shell.home / "boat.yaml").write_text((shell.home / "boat.yaml").read_text().replace("length: 4", "length: 5"))
    eventually(lambda: output.says("boat.example.com/dory configured"), "the changed manifest is loaded")
    below = children(process.pid)
    assert below
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert "Traceback" not in output.end()
    assert not any(alive(pid) for pid in below)
    assert shell.clusters() == {}


@pytest.mark.slow
def test_without_config_crd_the_definitions_are_made_from_the_operator_and_made_again_when_it_changes(shell):
    (shell.home / "config" / "crd" / "boats.yaml").unlink()
    (shell.home / "config" / "crd").rmdir()
    process = shell.start("dev", "boats_app:operator", "--load", "boat.yaml")
    output = Output(process.stdout.fileno())
    eventually(lambda: output.says("first seen"), "the operator works", within=180)
    app = APP.replace("WORD", "second").replace("    length: int = 0\n", "    length: int = 0\n    sail: str = ''\n")
    (shell.home / "boats_app.py").write_text("def broken(:\n")
    eventually(lambda: output.says("could be made from boats_app:operator: boats_app cannot be read"), "the error")
    (shell.home / "boats_app.py").write_text(app)
    eventually(lambda: output.says("second seen"), "the new operator works")
    eventually(lambda: output.says("boats.example.com configured"), "the new definition is in the cluster")
    version = json.loads(crd_of(shell.clusters()["dev"]["kubeconfig"]))["spec"]["versions"][0]
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert output.says("boats.example.com created")
    assert set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]) == {"length", "sail"}
    assert "Traceback" not in output.end()
    assert list(shell.scratch.iterdir()) == []
    assert not (shell.home / "config" / "crd").exists()


CONVERTING = """
from steersman import Model, Operator, Resource

class BoatSpec(Model):
    length: int = 0

class Boat(Resource, group="example.com", version="v1"):
    spec: BoatSpec = BoatSpec()

class BoatV2(Resource, group="example.com", version="v2", kind="Boat", storage=False):
    spec: BoatSpec = BoatSpec()

operator = Operator("boats")

@operator.controller
async def reconcile(boat: Boat) -> None: ...

@operator.converter
def up(old: Boat) -> BoatV2:
    return BoatV2(metadata=old.metadata, spec=old.spec)

@operator.converter
def down(new: BoatV2) -> Boat:
    return Boat(metadata=new.metadata, spec=new.spec)
"""


DEPLOYED_CONVERSION = """\
  conversion:
    strategy: Webhook
    webhook:
      clientConfig:
        service: {name: boats-webhook, namespace: boats-system, path: /convert}
      conversionReviewVersions: [v1]
"""


@pytest.mark.slow
def test_a_definition_is_loaded_again_while_the_operator_converts(shell):
    """The file names the Service of a deployed operator; on the cluster stands the URL of the running one."""
    (shell.home / "boats_app.py").write_text(CONVERTING)
    (shell.home / "config" / "crd" / "boats.yaml").unlink()
    made = shell.run("manifests", "boats_app:operator")
    assert made.returncode == 0, made.stderr
    (file,) = (shell.home / "config" / "crd").rglob("*_boats.yaml")
    file.write_text(file.read_text().replace("\nspec:\n", f"\nspec:\n{DEPLOYED_CONVERSION}", 1))
    process = shell.start("dev", "boats_app:operator")
    output = Output(process.stdout.fileno())
    eventually(lambda: output.says("conversion_registered"), "the operator converts", within=180)
    file.write_text(file.read_text().replace("    singular: boat", "    shortNames:\n    - bt\n    singular: boat"))
    eventually(lambda: output.says("changed: "), "the change is seen", within=60)
    eventually(lambda: output.says("boats.example.com configured") or output.says("error:"), "it is loaded", within=60)
    kubeconfig = shell.clusters()["dev"]["kubeconfig"]
    crd = json.loads(crd_of(kubeconfig))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert "error:" not in output.end()
    assert crd["spec"]["names"]["shortNames"] == ["bt"]
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["url"].startswith("https://127.0.0.1:")


def crd_of(kubeconfig):
    async def read():
        async with Client(load_config(kubeconfig)) as client:
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.example.com"
            return (await client.raw.request("GET", path)).body

    return asyncio.run(read())


@pytest.mark.slow
def test_without_reload_it_ends_with_the_operator(shell):
    (shell.home / "boats_app.py").write_text("raise SystemExit(3)\n")
    done = shell.run("dev", "boats_app:operator", "--no-reload")
    assert done.returncode == 1
    assert "importing boats_app ended the process (exit 3)" in done.stdout + done.stderr
    assert shell.clusters() == {}


@pytest.mark.slow
def test_the_operator_ends_even_when_its_parent_is_killed(shell):
    process = shell.start("dev", "boats_app:operator", "--no-reload", "--load", "boat.yaml")
    output = Output(process.stdout.fileno())
    eventually(lambda: output.says("first seen"), "the operator works", within=180)
    (child,) = children(process.pid)
    process.kill()
    process.wait()
    eventually(lambda: not alive(child), "the operator has ended")


@pytest.mark.slow
def test_a_terminal_shows_objects_queues_reconciles_and_the_log(shell):
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
    process = subprocess.Popen(
        shell.words("dev", "boats_app:operator", "--load", "boat.yaml"),
        cwd=shell.home, env={**shell.environment, "TERM": "xterm-256color"}, stdin=side, stdout=side, stderr=side,
        start_new_session=True,
    )  # fmt: skip
    os.close(side)
    output = Output(terminal)
    try:
        for text in ("steersman dev", "objects", "last reconciles", "log-of-dory", "first seen", "default/dory"):
            eventually(lambda text=text: output.says(text), f"{text!r} is shown", within=180)
        eventually(lambda: output.says("running"), "the operator is said to run")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        said = output.end()
        assert "stopped; the cluster and its objects are deleted" in said
        assert "\x1b[?1049l" in said, "the terminal's own screen is back"
        kept = shell.home / "state" / "steersman" / "logs" / "dev-dev.log"
        assert said.rstrip().endswith(f"log: {kept}")
        assert '"first seen"' in kept.read_text()
        assert kept.stat().st_mode & 0o077 == 0
        assert "Traceback" not in said
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(terminal)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("nowhere:operator", "--no-reload"), 2, "there is no module 'nowhere'"),
        (("boats_app:operator", "--load", "missing"), 2, "missing"),
        (("boats_app:operator", "--name", "Not A Name"), 1, "cannot name a cluster"),
    ],
)
def test_what_cannot_be_is_told(shell, words, code, told):
    done = shell.run("dev", *words)
    assert done.returncode == code
    assert told in done.stdout + done.stderr


def test_help_teaches_with_examples(shell):
    done = shell.run("dev", "--help")
    assert "steersman dev helloapp:operator --load config/samples" in done.stdout


class TestTheScene:
    def test_objects_stand_under_their_owners(self):
        def obj(kind, name, owner=None, **rest):
            references = [{"uid": owner}] if owner else []
            return {"kind": kind, "metadata": {"name": name, "uid": name, "ownerReferences": references}, **rest}

        (root,) = forest(
            [obj("App", "a")],
            [obj("Pod", "p", "r"), obj("ReplicaSet", "r", "d"), obj("Deployment", "d", "a"), obj("Pod", "other")],
        )
        names = []
        while True:
            names.append(root.name)
            if not root.children:
                break
            (root,) = root.children
        assert names == ["a", "d", "r", "p"]

    def test_owners_in_a_circle_end(self):
        a = {"kind": "A", "metadata": {"name": "a", "uid": "a", "ownerReferences": [{"uid": "b"}]}}
        b = {"kind": "B", "metadata": {"name": "b", "uid": "b", "ownerReferences": [{"uid": "a"}]}}
        (root,) = forest([a], [a, b])
        assert root.children[0].children[0].children == ()

    @pytest.mark.parametrize(
        ("obj", "said"),
        [
            ({"kind": "Pod", "status": {"phase": "Pending"}}, ("Pending 0/0", "busy")),
            (
                {"kind": "Pod", "status": {"phase": "Running", "containerStatuses": [{"ready": True, "state": {}}]}},
                ("Running 1/1", "good"),
            ),
            (
                {
                    "kind": "Pod",
                    "status": {
                        "phase": "Running",
                        "containerStatuses": [
                            {"ready": False, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
                        ],
                    },
                },
                ("CrashLoopBackOff 0/1, 3 restarts", "bad"),
            ),
            ({"kind": "Deployment", "spec": {"replicas": 2}, "status": {"readyReplicas": 1}}, ("1/2 ready", "busy")),
            (
                {"kind": "Boat", "status": {"conditions": [{"type": "Ready", "status": "False"}], "size": 3}},
                ("Ready=False, size 3", "bad"),
            ),
            ({"kind": "Boat"}, ("", "")),
        ],
    )
    def test_an_object_is_summed_up_in_a_few_words(self, obj, said):
        assert summary({"metadata": {"name": "x"}, **obj}) == said

    def test_what_is_being_deleted_says_what_holds_it(self):
        obj = {"kind": "Boat", "metadata": {"name": "x", "deletionTimestamp": "now", "finalizers": ["a/b"]}}
        assert summary(obj) == ("being deleted, held by a/b", "busy")

    def test_reports_that_make_no_sense_change_nothing(self):
        scene = DevState("a:b")
        scene.report(b"not json", "12:00:00")
        assert scene.version == 0

    def test_reports_become_queues_and_reconciles(self):
        scene = DevState("a:b")
        queue = {"depth": 1.0, "active": 2.0, "workers": 4.0, "reconciles": 9.0, "errors": 1.0}
        scene.report(json.dumps({"queues": {"boats": queue}}).encode(), "12:00:00")
        ran = {"controller": "boats", "namespace": "n", "name": "x", "seconds": 0.1, "ok": True, "result": "done"}
        scene.report(json.dumps(ran).encode(), "12:00:01")
        assert scene.queues[0].workers == 4
        assert (scene.ran[0].key, scene.ran[0].at) == ("n/x", "12:00:01")

    def test_json_log_lines_are_read_aloud_and_others_left_alone(self):
        line = {"timestamp": "2026-01-01T12:34:56Z", "level": "info", "event": "hello", "component": "x", "n": 1}
        assert log_line(json.dumps(line)) == "12:34:56 info    hello  n=1"
        assert log_line("plain {") == "plain {"
        assert log_line("{broken") == "{broken"


class TestTheView:
    LONG = "widgets.example.com is forbidden: " + "because " * 40 + "ENDING"

    def drawn(self, scene, width=80, height=40):
        console = Console(width=width, height=height, file=io.StringIO(), color_system=None)
        console.print(View(scene))
        return console.file.getvalue()

    def test_errors_in_the_log_wrap_and_other_lines_are_cut(self):
        scene = DevState("a:b")
        scene.log.extend([f"12:00:00 info    {self.LONG}", f"12:00:01 error   {self.LONG}"])
        shown = self.drawn(scene)
        assert shown.count("ENDING") == 1
        (cut,) = [line for line in shown.splitlines() if "info" in line]
        assert cut.rstrip(" │").endswith("…")

    def test_the_last_lines_of_a_wrapped_error_are_those_that_stay(self):
        scene = DevState("a:b")
        scene.log.extend([f"error: {'x' * 4000}", f"error: {self.LONG}"])
        assert "ENDING" in self.drawn(scene)

    def test_the_result_of_a_failed_reconcile_wraps(self):
        scene = DevState("a:b")
        ran = {"controller": "boats", "namespace": "n", "name": "x", "seconds": 0.1, "ok": False}
        scene.report(json.dumps({**ran, "result": "it failed because of the cause"}).encode(), "12:00:01")
        shown = " ".join(self.drawn(scene, width=100).split())
        assert "cause" in shown

    def test_the_path_of_the_log_file_is_the_title_of_the_log(self):
        scene = DevState("a:b", log_file="/var/[x]/dev.log")
        assert "log: /var/[x]/dev.log" in self.drawn(scene)


def test_the_log_file_is_bounded_and_the_log_of_the_session_before_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("steersman.cli.dev.logfile._MAX_BYTES", 1000)
    for session in ("first", "second"):
        file = LogFile(tmp_path / "logs" / "dev-x.log")
        file.write(f"{session} 100 % done")
        file.close()
    assert (tmp_path / "logs" / "dev-x.log").read_text() == "second 100 % done\n"
    assert (tmp_path / "logs" / "dev-x.log.1").read_text() == "first 100 % done\n"
    file = LogFile(tmp_path / "logs" / "dev-x.log")
    for number in range(1000):
        file.write(f"line {number}")
    file.close()
    assert sum(path.stat().st_size for path in (tmp_path / "logs").iterdir()) <= 2000
