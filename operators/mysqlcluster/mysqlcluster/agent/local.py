"""The local server of a member with its record on disk: sessions, facts, restarts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

import msgspec
from steersman.logs import get_logger

from mysqlcluster.agent.process import ServerProcess, write_if_different
from mysqlcluster.agent.record import Record, load_record, save_record
from mysqlcluster.agent.reserve import SpaceReserve
from mysqlcluster.agent.session import DriverError, LocalSession, connect
from mysqlcluster.agent.settings import AgentSettings, Secrets
from mysqlcluster.agent.tls import Certificates
from mysqlcluster.engines import Engine, ServerFacts, ServerOptions
from mysqlcluster.observation import Role

__all__ = ["SERVER_ERRORS", "LocalServer", "RefusedError"]

_log = get_logger("mysqlcluster.agent")

START_SECONDS = 60.0
POLL_SECONDS = 0.02
READ_SECONDS = 2.0
"""Time in which the server must report its state."""
HANGING_SECONDS = 3600.0
"""Time limit of a report that is late."""

SERVER_ERRORS = (OSError, TimeoutError, DriverError)


class RefusedError(Exception):
    """The agent does not perform an action; the message says why."""


class LocalServer:
    """The server process, its settings, and the record that survives restarts."""

    def __init__(
        self, settings: AgentSettings, engine: Engine, secrets: Callable[[], Secrets], certificates: Certificates
    ) -> None:
        """Read the record, and start nothing. The arguments are those of `Member`.

        Raises:
            ValueError: The record is damaged.
        """
        self.settings = settings
        self.engine = engine
        self.secrets = secrets
        self.certificates = certificates
        self.tls_revision = certificates.revision
        """The revision of the certificates that the server has loaded."""
        self.layout = settings.layout
        self.layout.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._record_file = self.layout.data / "agent.json"
        self.record: Record = load_record(self._record_file)
        self.reserve = SpaceReserve(self.layout.data)
        self._init_file = self.layout.data / "run" / "start.sql"
        options = msgspec.structs.replace(settings.server_options, init_file=self._init_file)
        self.process = ServerProcess(engine, self.layout, options, on_start=self._starts)
        self._root_password = ""
        """The password that the server's administrator has."""
        self._changing = asyncio.Lock()
        self._late: set[asyncio.Task[ServerFacts | None]] = set()
        """Reports that the server has not answered in time."""
        self.role = Role.NONE
        """The role in force; `NONE` after each start of the server."""
        self.restart_required: tuple[str, ...] = ()
        self.unreadable = False
        """The data is of a later series than the server. It stays on disk until a copy of another member replaces
        it."""

    @property
    def options(self) -> ServerOptions:
        """The settings for the next start."""
        return self.process.options

    def _starts(self) -> None:
        # The Secret may have changed while the server was down.
        self._root_password = self.secrets().root_password
        self.tls_revision = self.certificates.on_disk()
        statements = self.engine.password_statements(self._root_password)
        write_if_different(self._init_file, "".join(f"{each};\n" for each in statements))
        self.reserve.hold()
        self.role = Role.NONE
        self.restart_required = ()
        lost = self.record.has_relay_log
        complete = self.record.complete and not lost
        self.save(starts=self.record.starts + 1, complete=complete, has_relay_log=False)

    def save(self, **changes: object) -> None:
        """Change the record; returns when it is on disk."""
        fresh = msgspec.structs.replace(self.record, **changes)
        if fresh != self.record:
            save_record(self._record_file, fresh)
            self.record = fresh

    @contextlib.asynccontextmanager
    async def session(self, *, statement_seconds: float = 10.0) -> AsyncGenerator[LocalSession]:
        """Connect as the local administrator within an `async with` block; raises `SERVER_ERRORS`."""
        await self._follow_root_password()
        async with connect(self.layout.socket, self._root_password, statement_seconds=statement_seconds) as session:
            yield session

    async def _follow_root_password(self) -> None:
        """Change the administrator's password when the Secret has changed; raises `SERVER_ERRORS`."""
        async with self._changing:
            wanted = self.secrets().root_password
            if wanted == self._root_password:
                return
            async with connect(self.layout.socket, self._root_password) as session:
                await self.engine.set_root_password(session, wanted)
            self._root_password = wanted
            _log.info("root_password_changed", reason="the Secret has changed")

    async def facts(self) -> ServerFacts | None:
        """Return the state of the server, or `None` if it does not answer.

        A server that waits for disk space answers no report, and each report occupies one of its connections. So there
        is no other report while one is late.
        """
        self._late = {each for each in self._late if not each.done()}
        if self._late or not self.process.running:
            return None
        reading = asyncio.create_task(self._read())
        try:
            done, _ = await asyncio.wait({reading}, timeout=READ_SECONDS)
            return reading.result() if done else None
        finally:
            if not reading.done():
                self._late.add(reading)

    async def _read(self) -> ServerFacts | None:
        try:
            async with self.session(statement_seconds=HANGING_SECONDS) as session:
                return await self.engine.read(session)
        except SERVER_ERRORS as problem:
            _log.debug("server_not_ready", problem=type(problem).__name__)
            return None

    async def until_up(self) -> None:
        """Wait until the server answers.

        Raises:
            TimeoutError: It does not answer in time.
        """
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(*SERVER_ERRORS):
                    async with self.session():
                        return
                await asyncio.sleep(POLL_SECONDS)

    async def restart(self, *, kill: bool = False) -> None:
        """Stop the server, start it, and wait until it answers; raises `SERVER_ERRORS`."""
        await self.process.stop(kill=kill)
        await self.process.start()
        await self.until_up()
