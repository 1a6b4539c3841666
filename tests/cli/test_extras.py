"""Optional packages that are missing are named before a command starts anything."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from steersman.cli.dispatch import run
from steersman.client.config import Config
from steersman.client.transport.websockets import websocket_transport
from steersman.extras import MissingExtraError, require

APP = """
from steersman import Context, Model, Operator, Resource

class SiteSpec(Model):
    colour: str = "blue"

class Site(Resource, group="extras.steersman.dev", version="v1"):
    spec: SiteSpec = SiteSpec()

operator = Operator("sites")

@operator.controller()
async def reconcile(site: Site, ctx: Context) -> None: ...
"""


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "bare_app.py").write_text(APP)

    def call(*words, without):
        for module in without:
            monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(SystemExit) as ended:
            run(list(words))
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return ended.value.code, out, err

    yield call
    sys.modules.pop("bare_app", None)


def test_dev_names_all_missing_packages_before_a_cluster_starts(command, tmp_path):
    code, out, err = command("dev", "bare_app:operator", "--no-live", without=("watchfiles", "steersman_cluster"))
    assert (code, out) == (1, "")
    assert err == (
        "error: `steersman dev` needs steersman-cluster and watchfiles, which are not installed: "
        "pip install 'steersman[dev]'\n"
    )
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("words", [("start",), ("start", "--detach"), ("stop",), ("status",), ("load", "app.yaml")])
def test_cluster_commands_without_the_embedded_cluster_name_the_command_that_installs_it(words, tmp_path):
    program = "import sys; sys.modules['steersman_cluster'] = None; from steersman.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "cluster", *words],
        cwd=tmp_path, env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: `steersman cluster` needs steersman-cluster, which is not installed: pip install 'steersman[dev]'\n"
    )
    assert not (tmp_path / "state").exists()


HIDDEN = (
    "import sys; sys.modules.update(dict.fromkeys("
    "('aiohttp', 'typer', 'rich', 'click', 'pydantic', 'multidict', 'yarl', 'steersman_cluster')));"
)


def without_typer(cwd, *words):
    program = f"{HIDDEN} from steersman.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *words], cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_run_needs_no_package_of_the_other_commands(tmp_path):
    (tmp_path / "bare_app.py").write_text(APP)
    code, _, err = without_typer(tmp_path, "run", "bare_app:operator", "--kubeconfig", "none.yaml")
    assert code == 1
    assert "none.yaml" in err
    code, out, err = without_typer(tmp_path, "run", "--help")
    assert (code, err) == (0, "")
    assert "--leader-elect" in out


def test_other_commands_name_the_extra_that_installs_them(tmp_path):
    assert without_typer(tmp_path, "manifests", "bare_app:operator") == (
        1,
        "",
        "error: `steersman manifests` needs typer, which is not installed: pip install 'steersman[cli]'\n",
    )
    code, out, err = without_typer(tmp_path, "--help")
    assert (code, err) == (0, "")
    assert "pip install 'steersman[cli]'" in out


def test_run_with_reload_names_watchfiles(command):
    code, _, err = command("run", "bare_app:operator", "--reload", without=("watchfiles",))
    assert (code, err) == (
        1,
        "error: --reload needs watchfiles, which is not installed: pip install 'steersman[dev]'\n",
    )


def test_tracing_without_opentelemetry_is_refused_before_probes_are_served(command):
    words = ("run", "bare_app:operator", "--tracing", "--server", "http://127.0.0.1:1")
    code, out, err = command(*words, "--health-probe-bind-address", "127.0.0.1:0", without=("opentelemetry",))
    assert code == 1
    assert "tracing needs opentelemetry-sdk" in err
    assert "pip install 'steersman[otel]'" in err
    assert "probes" not in out + err


def test_init_names_copier_and_ruff_together_and_writes_nothing(command, tmp_path):
    words = ("init", "--domain", "example.com", "--project-name", "sites", "-C", str(tmp_path / "new"))
    code, _, err = command(*words, without=("copier", "ruff"))
    assert code == 1
    assert "needs copier and ruff, which are not installed: pip install 'steersman[dev]'" in err
    assert not (tmp_path / "new").exists()


def test_installed_packages_are_not_named():
    require("a test", "dev", "pytest", "copier", "ruff", "watchfiles", "steersman_cluster")


def test_a_websocket_without_aiohttp_names_the_extra_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtraError) as refused:
        websocket_transport(Config(server="https://127.0.0.1:6443"))
    assert str(refused.value) == (
        "a WebSocket (exec, attach, port forwarding) needs aiohttp, which is not installed: "
        "pip install 'steersman[aiohttp]'"
    )
