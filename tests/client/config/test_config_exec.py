"""Exec plugins, run for real: small shell and Python programs."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steersman.client.config import ClientCertificate, CredentialError, load_config
from steersman.client.config.exec_plugin import ExecPlugin, Output, exec_auth, run_plugin
from steersman.testing import virtual_time

V1 = "client.authentication.k8s.io/v1"
BETA = "client.authentication.k8s.io/v1beta1"


def credential(version: str = V1, **status: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    def write(source: str) -> Path:
        path = tmp_path / "bin" / "plugin"
        path.parent.mkdir(exist_ok=True)
        script = path.with_suffix(".py")
        script.write_text(f"import os, sys\n{source}\n")
        # A first line cannot name an interpreter whose path has a space.
        path.write_text(f"#!/bin/sh\nexec '{sys.executable}' -S '{script}' \"$@\"\n")
        path.chmod(0o700)
        return path

    return write


def plugin(command: Path | str, **fields: Any) -> ExecPlugin:
    return ExecPlugin(**({"command": str(command), "api_version": V1, "interactive_mode": "Never"} | fields))


@pytest.mark.parametrize("version", [V1, BETA])
async def test_a_plugin_beside_the_kubeconfig_gets_arguments_environment_and_cluster(
    kubeconfig, program, tmp_path: Path, version: str, pair, b64
) -> None:
    program(
        "out = {'args': sys.argv[1:], 'mine': os.environ['MINE'], 'path': 'PATH' in os.environ,"
        " 'stdin': sys.stdin.read(), 'info': os.environ['KUBERNETES_EXEC_INFO']}\n"
        f"import json; open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps(out))\n"
        f"print({credential(version, token='tok')!r})"
    )
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": 7, "on": True}}
    config = load_config(
        kubeconfig(
            cluster={
                "certificate-authority-data": b64(pair[0]),
                "tls-server-name": "n",
                "extensions": [{"name": "other", "extension": 1}, extension],
            },
            user={
                "exec": {
                    "command": "./bin/plugin",
                    "apiVersion": version,
                    "args": ["a", "7"],
                    "env": [{"name": "MINE", "value": "v"}],
                    "interactiveMode": "Never",
                    "provideClusterInfo": True,
                }
            },
        ),
        env={},
    )
    assert await config.auth.headers() == {"Authorization": "Bearer tok"}
    seen = json.loads((tmp_path / "seen").read_text())
    assert (seen["args"], seen["mine"], seen["path"], seen["stdin"]) == (["a", "7"], "v", True, "")
    assert json.loads(seen["info"]) == {
        "kind": "ExecCredential",
        "apiVersion": version,
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://kube.test:6443",
                "tls-server-name": "n",
                "certificate-authority-data": b64(pair[0]),
                "config": {"audience": 7, "on": True},
            },
        },
    }


async def test_a_plugin_may_return_a_certificate_that_changes(program, pair, pki, tmp_path: Path) -> None:
    answer = tmp_path / "answer"

    def returns(cert: bytes, key: bytes) -> None:
        answer.write_text(credential(clientCertificateData=cert.decode(), clientKeyData=key.decode()))

    auth = exec_auth(plugin(program(f"print(open({str(answer)!r}).read())")))
    assert auth.client_certificate() is None
    returns(*pair)
    assert dict(await auth.headers()) == {}
    assert auth.client_certificate() == ClientCertificate(*pair)
    new = pki.pair()
    returns(*new)
    auth._refreshed_at = float("-inf")  # as if the last refresh were long ago
    await auth.headers(refresh=True)
    assert auth.client_certificate() == ClientCertificate(*new)


async def test_the_event_loop_runs_on_while_a_plugin_works(program) -> None:
    auth = exec_auth(plugin(program(f"import time; time.sleep(0.2); print({credential(token='t')!r})")))
    refresh = asyncio.create_task(auth.headers())
    ticks = 0
    while not refresh.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert ticks > 5
    assert await refresh == {"Authorization": "Bearer t"}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("print('{oops')", "did not print an ExecCredential"),
        ("print('[]')", "did not print an ExecCredential"),
        ("sys.stdout.buffer.write(b'\\xff')", "did not print an ExecCredential"),
        (f"print({credential(BETA, token='hunter2')!r})", "printed 'client.authentication.k8s.io/v1beta1'"),
        (f"print({credential()!r})", "neither a token nor a client certificate"),
        (f"print({credential(clientCertificateData='hunter2')!r})", "only one of clientCertificateData"),
        (
            f"print({credential(clientCertificateData='hunter2', clientKeyData='hunter2')!r})",
            "unusable credential: not a PEM certificate",
        ),
        (f"print({credential(token='hunter2 x')!r})", "not valid in an HTTP header"),
        (
            f"print({credential(token='t', expirationTimestamp='2026-01-01T00:00:00')!r})",
            "expirationTimestamp without a time zone",
        ),
        (f"print({credential(token='t', expirationTimestamp='soon')!r})", "did not print an ExecCredential"),
        (
            "print('please log in', os.environ['PW'], 'x' * 40, file=sys.stderr); sys.exit(3)",
            "status 3: please log in",
        ),
        ("sys.stdout.write('x' * 3_000_000)", "printed more than"),
    ],
)
async def test_a_plugin_that_fails_is_named_and_its_secrets_are_not(program, source: str, problem: str) -> None:
    auth = exec_auth(plugin(program(source), env=(("PW", "hunter2"),), entry='user "u"', source="/kube/config"))
    with pytest.raises(CredentialError) as caught:
        await auth.headers()
    text = str(caught.value)
    assert problem in text
    assert text.startswith('/kube/config, user "u", exec: ')
    assert "hunter2" not in text
    assert "xxxx" not in text


async def test_a_missing_plugin_shows_the_install_hint_without_terminal_escapes() -> None:
    auth = exec_auth(plugin("no-such-plugin-here", install_hint="\x1b[31mbrew install it\x1b[0m"))
    with pytest.raises(CredentialError, match=r"no-such-plugin-here was not found; brew install it$"):
        await auth.headers()


async def test_a_plugin_that_hangs_is_ended_with_its_children(program, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = program(
        "import subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(pids)!r}, 'w').write(str(child.pid))\ntime.sleep(600)"
    )
    with pytest.raises(CredentialError, match=r"did not finish within 0.5 s"):
        await run_plugin(plugin(command), {}, interactive=False, timeout=0.5)
    if pids.exists():
        await _gone(int(pids.read_text()))


async def test_a_cancelled_caller_leaves_no_process_behind(program, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    auth = exec_auth(plugin(program(f"import time\nopen({str(pids)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)")))
    task = asyncio.create_task(auth.headers())
    while not (pids.exists() and pids.read_text()):
        assert not task.done(), await task
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _gone(int(pids.read_text()))


async def _gone(pid: int) -> None:
    stat = Path(f"/proc/{pid}/stat")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = stat.read_text().rpartition(")")[2].split()[0]  # noqa: ASYNC240 - procfs
        except OSError:
            return
        if state == "Z":
            return
        await asyncio.sleep(0.01)
    os.kill(pid, 9)
    pytest.fail(f"process {pid} still runs")


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [
        ("Never", True, False),
        ("IfAvailable", True, True),
        ("IfAvailable", False, False),
        ("Always", True, True),
    ],
)
async def test_interactive_mode_decides_about_standard_input(mode: str, terminal: bool, interactive: bool) -> None:
    seen: list[tuple[bool, bool]] = []

    async def run(_plugin: ExecPlugin, env: Any, *, interactive: bool) -> Output:
        spec = json.loads(env["KUBERNETES_EXEC_INFO"])["spec"]
        seen.append((interactive, spec["interactive"]))
        return Output(0, credential(token="t").encode())

    await exec_auth(plugin("x", interactive_mode=mode), run=run, is_terminal=lambda: terminal).headers()
    assert seen == [(interactive, interactive)]


async def test_a_plugin_that_needs_a_terminal_says_so() -> None:
    auth = exec_auth(plugin("x", interactive_mode="Always"), is_terminal=lambda: False)
    with pytest.raises(CredentialError, match="needs a terminal"):
        await auth.headers()


@virtual_time
async def test_a_plugin_runs_again_only_when_its_credential_expires_or_is_refused() -> None:
    now = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
    runs = 0

    async def run(_plugin: ExecPlugin, _env: Any, *, interactive: bool) -> Output:
        nonlocal runs
        runs += 1
        expires = (now + dt.timedelta(hours=1)).isoformat()
        return Output(0, credential(token=f"t{runs}", expirationTimestamp=expires).encode())

    auth = exec_auth(plugin("x"), run=run, now=lambda: now)
    for _ in range(3):
        assert await auth.headers() == {"Authorization": "Bearer t1"}
    await asyncio.sleep(3595)
    assert await auth.headers() == {"Authorization": "Bearer t2"}
    await asyncio.sleep(60)
    assert await auth.headers(refresh=True) == {"Authorization": "Bearer t3"}
    assert runs == 3
