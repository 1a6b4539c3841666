"""The command line: its output and its exit codes."""

import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest

import steersman
from steersman.cli.dispatch import run


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Run `steersman …` in this process, in an empty directory; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "app_under_test.py").write_text(
        "from steersman import Context, Operator\n"
        "from steersman.k8s import Pod\n"
        "operator = Operator('cli-test')\n"
        "empty = Operator('empty')\n"
        "@operator.controller\n"
        "async def reconcile(pod: Pod, ctx: Context) -> None: ...\n"
    )

    def call(*words):
        with pytest.raises(SystemExit) as ended:
            run(list(words))
        out, err = capsys.readouterr()
        code = ended.value.code
        return 0 if code is None else code, out, err

    return call


def test_the_version_is_printed_for_people_and_for_programs(command):
    code, out, _ = command("version")
    assert code == 0
    assert out.startswith(f"steersman {steersman.__version__} (Python ")
    code, out, _ = command("version", "--output", "json")
    assert json.loads(out)["version"] == steersman.__version__
    assert command("--version") == command("version")


@pytest.mark.parametrize(("words", "logged"), [((), ["odd"]), (("--debug",), ["tried again", "odd"])])
def test_what_is_logged_never_mixes_with_what_is_printed(words, logged):
    """A request that was tried again, say, in the middle of `-o json`."""
    program = (
        "from steersman.cli import dispatch, main\n"
        "def run():\n"
        "    from steersman.telemetry.log import get_logger\n"
        "    get_logger('client').debug('tried again')\n"
        "    get_logger('client').warning('odd')\n"
        "    print('{}')\n"
        "    raise SystemExit(0)\n"
        "dispatch.run = run\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"
    assert [event for event in ("tried again", "odd") if event in done.stderr] == logged


def test_help_teaches_with_examples(command):
    code, out, _ = command("run", "--help")
    assert code == 0
    assert "steersman run helloapp:operator --reload -n dev" in out
    assert "Ctrl-C twice aborts" in out
    for flag in ("--kubeconfig", "--namespace-selector", "--leader-elect", "--health-probe-bind-address", "--as"):
        assert flag in out


def test_the_assets_of_a_test_control_plane_are_a_sub_command(command):
    code, out, _ = command("cluster", "assets", "--help")
    assert code == 0
    assert "install" in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_it(shell):
    done = subprocess.run(
        [sys.executable, "-m", "steersman"],
        env={**os.environ, "_STEERSMAN_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_STEERSMAN_COMPLETE=complete_" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["run"], 2, "MODULE:OPERATOR"),
        (["rnu", "x:y"], 2, "No such command"),
        (["run", "app_under_test", "--worker=1"], 2, "No such option"),
        (["run", "app_under_test", "--workers=0"], 2, "workers=0: at least 1"),
        (["run", "app_under_test", "--lease-duration=soon"], 2, "--lease-duration='soon'"),
        (["run", "app_under_test", "-n", "a", "--namespace-selector", "b=c"], 2, "it excludes --namespace-selector"),
        (["run", "app_under_test", "-n", "a", "-A"], 2, "--all-namespaces excludes"),
        (["run", "app_under_test", "--as-group", "g"], 2, "together with a user"),
        (["run", "app_under_test", "--config", "none.toml"], 2, "settings file none.toml: No such file"),
        (["run", "nowhere_to_be_found:operator"], 2, "there is no module 'nowhere_to_be_found'"),
        (["run", "app_under_test:empty"], 1, "operator 'empty' has no controller, no timer and no webhook"),
        (["run", "app_under_test"], 1, "no Kubernetes configuration found"),
        (["run", "app_under_test", "--kubeconfig", "none.yaml"], 1, "none.yaml"),
        (["run", "app_under_test", "--server", "ftp://x"], 1, "unsupported scheme 'ftp'"),
    ],
)
def test_a_wrong_use_is_one_clear_message_without_a_traceback(command, words, code, message):
    got, out, err = command(*words)
    assert got == code, err
    assert message in out + err
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    "text", ["{", "kind: Config\nclusters: 3\n", "apiVersion: v1\nkind: Config\ncurrent-context: x\n"]
)
def test_a_broken_kubeconfig_is_named(command, tmp_path, text):
    (tmp_path / "broken.yaml").write_text(text)
    code, _, err = command("run", "app_under_test", "--kubeconfig", "broken.yaml")
    assert code == 1
    assert "broken.yaml" in err
    assert "Traceback" not in err


def test_debug_shows_where_it_went_wrong(command):
    code, _, err = command("run", "app_under_test", "--kubeconfig", "none.yaml", "--debug")
    assert code == 1
    assert "Traceback" in err


def test_a_taken_port_is_named_with_the_flag_that_changes_it(command):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = command(
            "run", "app_under_test", "--server=http://127.0.0.1:1", f"--health-probe-bind-address=127.0.0.1:{port}"
        )
    assert code == 1
    assert "Address already in use" in err
    assert "--health-probe-bind-address" in err


@pytest.mark.realcluster
def test_an_expired_certificate_is_named_before_anything_is_sent(command, control_plane):
    kubeconfig = control_plane.user_kubeconfig("jane", valid_for=timedelta(seconds=-1))
    code, _, err = command("run", "app_under_test", "--kubeconfig", str(kubeconfig))
    assert code == 1
    assert "expired" in err


def test_the_module_runs_as_the_command_does():
    done = subprocess.run([sys.executable, "-m", "steersman", "version"], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("steersman ")
