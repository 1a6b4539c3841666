"""Exec credential plugins: `client.authentication.k8s.io/v1` and `v1beta1` (aws, gke-gcloud-auth-plugin, kubelogin).

The plugin runs as a subprocess with a timeout when credentials are missing, expire or were refused, once for all
callers (see `RefreshingAuth`). Its arguments, environment and output are never part of an error message; its stderr
is, with strings that look like credentials removed.

Source: KEP-541, https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, cast

import msgspec

from steersman.client.config.errors import ConfigError, CredentialError
from steersman.client.config.files import check_token
from steersman.client.config.refresh import Credentials, RefreshingAuth, bearer
from steersman.client.config.tls import check_client_certificate
from steersman.telemetry.clock import Now, utc_now

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

_MAX_OUTPUT_BYTES = 1 << 20
_MAX_STDERR_BYTES = 1 << 16
_TIMEOUT_SECONDS = 60.0
_INTERACTIVE_TIMEOUT_SECONDS = 600.0
_SECRET = re.compile(r"[A-Za-z0-9_\-+/=.]{32,}")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class ExecPlugin:
    """One `users[].user.exec` entry. `cluster` is the cluster's entry if `provideClusterInfo` is set, else None."""

    command: str
    api_version: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)
    source: str = ""
    entry: str = ""

    def error(self, problem: str, hint: str = "") -> CredentialError:
        """Return an error about this plugin."""
        return CredentialError(problem, source=self.source, entry=self.entry, field="exec", hint=hint)


@dataclass(frozen=True)
class Output:
    """The result of a plugin's process."""

    status: int
    stdout: bytes = field(repr=False)
    stderr: bytes = field(default=b"", repr=False)


class Run(Protocol):
    """Runs a plugin."""

    async def __call__(self, plugin: ExecPlugin, env: Mapping[str, str], /, *, interactive: bool) -> Output:
        """Run a plugin with additional environment variables; an interactive one has the terminal."""
        ...


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


def exec_auth(
    plugin: ExecPlugin,
    *,
    run: Run | None = None,
    now: Now = utc_now,
    is_terminal: Callable[[], bool] | None = None,
) -> RefreshingAuth:
    """Return an `Authenticator` that runs `plugin`. The plugin runs at the first call of `headers()`."""
    run_it = run or run_plugin
    terminal = is_terminal or _stdin_is_terminal

    async def obtain(*, forced: bool) -> Credentials:  # each run obtains new credentials
        interactive = _interactive(plugin, terminal=terminal())
        output = await run_it(
            plugin, {"KUBERNETES_EXEC_INFO": exec_info(plugin, interactive=interactive)}, interactive=interactive
        )
        if output.status != 0:
            said = _error_output(plugin, output.stderr)
            problem = f"{plugin.command} failed with status {output.status}{f': {said}' if said else ''}"
            raise plugin.error(problem, "run it in a shell to see the reason, for example an expired login")
        return read_credential(plugin, output.stdout, now)

    return RefreshingAuth(obtain)


def exec_info(plugin: ExecPlugin, *, interactive: bool) -> str:
    """Return the value of KUBERNETES_EXEC_INFO: an ExecCredential with the spec for the plugin."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    return msgspec.json.encode(info).decode()


def read_credential(plugin: ExecPlugin, stdout: bytes, now: Now) -> Credentials:
    """Parse the credentials that a plugin printed. Raises `CredentialError`, which never quotes them."""
    try:
        credential = msgspec.json.decode(stdout, type=_ExecCredential)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        hint = "it must print one ExecCredential as JSON and no other output"
        raise plugin.error(f"{plugin.command} did not print an ExecCredential", hint) from None
    if credential.kind != "ExecCredential" or credential.api_version != plugin.api_version:
        problem = f"{plugin.command} printed {credential.api_version[:80]!r} {credential.kind[:80]!r}"
        raise plugin.error(problem, f"set apiVersion to that value, or make the plugin print {plugin.api_version!r}")
    status = credential.status or _Status()
    if not status.token and not status.client_certificate_data:
        raise plugin.error(f"{plugin.command} returned neither a token nor a client certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise plugin.error(f"{plugin.command} returned only one of clientCertificateData and clientKeyData")
    certificate = None
    try:
        headers = bearer(check_token(status.token)) if status.token else {}
        if status.client_certificate_data and status.client_key_data:
            certificate = check_client_certificate(
                status.client_certificate_data.encode(),
                status.client_key_data.encode(),
                cert_field="clientCertificateData",
                key_field="clientKeyData",
                now=now,
            )
    except ConfigError as error:
        raise plugin.error(f"{plugin.command} returned an unusable credential: {error.problem}") from None
    lifetime = None
    if (expires := status.expiration_timestamp) is not None:
        if expires.tzinfo is None:
            raise plugin.error(f"{plugin.command} returned an expirationTimestamp without a time zone")
        lifetime = (expires - now()).total_seconds()
    return Credentials(headers, certificate, lifetime)


async def run_plugin(
    plugin: ExecPlugin, env: Mapping[str, str], *, interactive: bool, timeout: float | None = None
) -> Output:
    """Run the plugin's command without blocking the event loop.

    Interactive plugins inherit the terminal. Others get an empty stdin and a session of their own, so that a timeout
    ends their child processes too. `timeout` is in seconds (60, or 600 if interactive). Raises `CredentialError`.
    """
    deadline = timeout or (_INTERACTIVE_TIMEOUT_SECONDS if interactive else _TIMEOUT_SECONDS)
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if interactive else asyncio.subprocess.PIPE,
            env={**os.environ, **dict(plugin.env), **env},
            start_new_session=not interactive,
        )
    except FileNotFoundError:
        hint = plugin.install_hint or "install it, put it on PATH or correct exec.command"
        raise plugin.error(f"the command {plugin.command} was not found", _without_escapes(hint)) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "unusable arguments"
        raise plugin.error(f"the command {plugin.command} could not be started: {why}") from None
    try:
        async with asyncio.timeout(deadline):
            stdout, stderr, status = await asyncio.gather(
                _read(process.stdout, _MAX_OUTPUT_BYTES, process, interactive=interactive),
                _read(process.stderr, _MAX_STDERR_BYTES, None, interactive=interactive),
                process.wait(),
            )
    except TimeoutError:
        raise plugin.error(f"{plugin.command} did not finish within {deadline:g} s") from None
    finally:
        if process.returncode is None:
            _kill(process, interactive=interactive)
            await process.wait()
        # A grandchild process may hold the pipes open; closing our ends prevents a wait for it.
        cast(Any, process)._transport.close()
    if len(stdout) > _MAX_OUTPUT_BYTES:
        raise plugin.error(f"{plugin.command} printed more than {_MAX_OUTPUT_BYTES} bytes")
    return Output(status, stdout, stderr)


async def _read(
    stream: asyncio.StreamReader | None,
    limit: int,
    process: asyncio.subprocess.Process | None,
    *,
    interactive: bool,
) -> bytes:
    """Read a pipe up to `limit` bytes; beyond it kill the process or, without a process, discard the rest."""
    if stream is None:
        return b""
    found = bytearray()
    while chunk := await stream.read(1 << 16):
        if len(found) <= limit:
            found += chunk
        if len(found) > limit and process is not None:
            _kill(process, interactive=interactive)
    return bytes(found)


def _kill(process: asyncio.subprocess.Process, *, interactive: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if interactive:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _interactive(plugin: ExecPlugin, *, terminal: bool) -> bool:
    if plugin.interactive_mode == "Always" and not terminal:
        raise plugin.error(
            f"{plugin.command} needs a terminal (interactiveMode Always), but standard input is not a terminal",
            "run in a terminal, or use credentials that need no input",
        )
    return plugin.interactive_mode != "Never" and terminal


def _stdin_is_terminal() -> bool:
    try:
        return sys.stdin is not None and os.isatty(sys.stdin.fileno())
    except (OSError, ValueError):
        return False


def _error_output(plugin: ExecPlugin, stderr: bytes) -> str:
    text = _without_escapes(stderr.decode("utf-8", "replace"))
    for _, value in plugin.env:
        if len(value) >= 6:
            text = text.replace(value, "[redacted]")
    return _SECRET.sub("[redacted]", text)[-500:]


def _without_escapes(text: str) -> str:
    """Remove terminal escapes: the text of a kubeconfig must not control the terminal that shows the error."""
    return " ".join(_ESCAPE.sub("", text).split())
