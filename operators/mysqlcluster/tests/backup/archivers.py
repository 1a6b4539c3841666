"""Archivers as processes on loopback, with a directory or a real S3 server as target."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from mysqlcluster.backup.catalog import BackupManifest
from mysqlcluster.backup.protocol import ArchiverState, Follow, Job, TakeBackup, VerifyBackup
from tests.members import ROOT, SECRETS, Members, free_ports

BUCKET = "backups"
KEYS = {"accessKeyId": "TESTACCESSKEY", "secretAccessKey": "secret-of-the-test-account"}
ENCRYPTION_KEY = base64.b64encode(bytes(range(32))).decode()
WAIT_SECONDS = 180.0
"""Time limit of a condition: a busy machine copies data and starts servers slowly."""


@contextlib.contextmanager
def s3_server(directory: Path) -> Iterator[str]:
    """Run an S3 server with an empty bucket, and return its URL."""
    made = subprocess.run(
        [sys.executable, str(ROOT / "hack/s3_server.py")], capture_output=True, text=True, timeout=900
    )
    if made.returncode:
        pytest.skip(made.stderr.strip())
    (directory / "objects" / BUCKET).mkdir(parents=True)
    (port,) = free_ports(1)
    server = subprocess.Popen(
        [made.stdout.strip(), "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(directory / "objects")],
        env={**os.environ, "ROOT_ACCESS_KEY": KEYS["accessKeyId"], "ROOT_SECRET_KEY": KEYS["secretAccessKey"]},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_listening(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def _wait_listening(port: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1)
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the S3 server does not listen")


class Archiver:
    """One archiver process."""

    def __init__(self, directory: Path, members: Members, archive: dict[str, Any] | None, source: Any = None) -> None:
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "archiver.log"
        self._settings = directory / "archiver.json"
        self._settings.write_text(
            json.dumps(
                {
                    "cluster": "db",
                    "flavor": members.flavor,
                    "rootDirectory": members.root,
                    "scratchDirectory": str(directory / "s"),
                    "secretsDirectory": str(members.directory / "secrets"),
                    "port": self.port,
                    "peers": {name: members.url(name) for name in members.names},
                    "archive": archive,
                    "source": source,
                }
            )
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mysqlcluster.backup.archiver", str(self._settings)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    async def state(self) -> ArchiverState:
        async with aiohttp.ClientSession(headers=_headers()) as session, session.get(f"{self.url}/v1/state") as answer:
            assert answer.status == 200
            return msgspec.json.decode(await answer.read(), type=ArchiverState)

    async def send(self, job: Job) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession(headers=_headers()) as session,
            session.post(f"{self.url}/v1/jobs", data=msgspec.json.encode(job)) as answer,
        ):
            return answer.status, await answer.text()

    async def until(self, holds: Callable[[ArchiverState], Any], seconds: float = WAIT_SECONDS) -> ArchiverState:
        """Return the report when a condition holds."""
        state: ArchiverState | None = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    with contextlib.suppress(aiohttp.ClientError, OSError):
                        state = await self.state()
                        if holds(state):
                            return state
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"the archiver did not come so far: {state}\n{self.log.read_text()[-3000:]}") from None

    async def follow(self, member: str) -> None:
        await self.until(lambda state: state.ready)
        assert (await self.send(Follow(source=member)))[0] == 202

    async def back_up(self, name: str, member: str) -> BackupManifest:
        """Take a full backup and verify it."""
        assert (await self.send(TakeBackup(name=name, source=member)))[0] == 202
        await self.until(lambda state: state.running is None and self._settled(state, name))
        assert (await self.send(VerifyBackup(name=name)))[0] == 202
        state = await self.until(lambda state: state.running is None and self._settled(state, name))
        found = next(each for each in state.backups if each.name == name)
        assert found.verified, state.failures
        return found

    @staticmethod
    def _settled(state: ArchiverState, name: str) -> bool:
        assert not state.failures, state.failures
        return any(each.name == name for each in state.backups)


def _headers() -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS['agent-token']}"}


def in_directory(directory: Path, *, key: Path | None = None) -> dict[str, Any]:
    """Return the settings of an archive in a directory."""
    return {"location": "shop/db-1", "directory": str(directory), "keyDirectory": str(key or "")}


def in_s3(endpoint: str, directory: Path, *, key: Path | None = None) -> dict[str, Any]:
    """Return the settings of an archive in the test's bucket."""
    credentials = directory / "credentials"
    credentials.mkdir(exist_ok=True)
    for name, value in KEYS.items():
        (credentials / name).write_text(value)
    target = {"bucket": BUCKET, "endpoint": endpoint, "prefix": "of/shop", "credentialsDirectory": str(credentials)}
    return {"location": "shop/db-1", "s3": target, "keyDirectory": str(key or "")}


def encryption_key(directory: Path) -> Path:
    """Write a key, and return its directory."""
    made = directory / "key"
    made.mkdir(exist_ok=True)
    (made / "key").write_text(ENCRYPTION_KEY)
    return made
