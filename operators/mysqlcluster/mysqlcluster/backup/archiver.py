"""The process that writes the archive of a cluster: `python -m mysqlcluster.backup.archiver SETTINGS.json`.

| request | response |
|---|---|
| `GET /v1/state` | `ArchiverState` |
| `POST /v1/jobs` | starts a job; 202, 409 if another one runs or there is no target |
| `GET /v1/source/plan` | the plan of a restore from the source, or 409 with the reason |
| `GET /v1/source/backups/NAME` | a full copy from the source |
| `GET /v1/source/segments/NUMBER` | a segment from the source |
| `GET /healthz` | 200 while the process runs; no token is needed |
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import msgspec
from aiohttp import web
from steersman.logs import configure, get_logger

from mysqlcluster.agent.api import Handler, bears_token
from mysqlcluster.agent.tls import Certificates
from mysqlcluster.backup.archive import Archive
from mysqlcluster.backup.archiver_settings import (
    ArchiverSettings,
    archive_of,
    load_archiver_settings,
    read_token,
    read_tokens,
)
from mysqlcluster.backup.catalog import CatalogError
from mysqlcluster.backup.follower import Follower
from mysqlcluster.backup.jobs import JobBusyError, Jobs
from mysqlcluster.backup.members import Members
from mysqlcluster.backup.plan import PlanError, Target
from mysqlcluster.backup.protocol import AnyJob, ArchiverState, Follow, GapState, RunningJob
from mysqlcluster.backup.sealing import SealError
from mysqlcluster.backup.stores import MissingObjectError, StoreError
from mysqlcluster.credentials import accepted_tokens, token_revision
from mysqlcluster.engines import Layout, engine_of

__all__ = ["Archiver"]

_log = get_logger("mysqlcluster.archiver")

MAX_JOB_BYTES = 1 << 14
RETRY_SECONDS = 2.0
CERTIFICATE_POLL_SECONDS = 2.0
SHUTDOWN_SECONDS = 2.0
MAX_GAPS = 16


class Archiver:
    """The archive of one cluster, and the source archive that the cluster is restored from."""

    def __init__(self, settings: ArchiverSettings, certificates: Certificates) -> None:
        """Create the archives of the settings; `start` opens the port.

        Args:
            settings: The settings.
            certificates: The certificates of the cluster.

        Raises:
            StoreError: A target cannot be used.
            SettingsError: A credential or a key is missing.
        """
        self.settings = settings
        self._certificates = certificates
        secrets = Path(settings.secrets_directory)
        self._tokens = lambda: read_tokens(secrets)
        scratch = Path(settings.scratch_directory)
        shutil.rmtree(scratch / "segments", ignore_errors=True)
        (scratch / "segments").mkdir(parents=True, mode=0o700)
        members = Members(settings.url_of, lambda: read_token(secrets), lambda: certificates.client)
        flavor, own, source = settings.flavor, settings.archive, settings.source
        self._archive: Archive | None = archive_of(own, flavor, writes=True) if own else None
        self._source: Archive | None = archive_of(source, flavor, writes=False) if source else None
        layout = Layout(Path(settings.root_directory), scratch)
        self._jobs = Jobs(self._archive, members, engine_of(settings.flavor), layout) if self._archive else None
        self._follower = Follower(self._archive, members, scratch / "segments") if self._archive else None
        self._ready = False
        self._problem = ""
        self._tasks: list[asyncio.Task[None]] = []
        application = web.Application(middlewares=[self._authenticate], client_max_size=MAX_JOB_BYTES)
        application.router.add_get("/v1/state", self._state)
        application.router.add_post("/v1/jobs", self._start_job)
        application.router.add_get("/v1/source/plan", self._plan)
        application.router.add_get("/v1/source/backups/{name}", self._data)
        application.router.add_get("/v1/source/segments/{number}", self._segment)
        application.router.add_get("/healthz", self._healthy)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)

    async def start(self) -> int:
        """Listen, start to read the target and to follow a member, and return the port."""
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, self.settings.address, self.settings.port, ssl_context=self._certificates.server
        )
        await site.start()
        self._tasks.append(asyncio.create_task(self._follow_certificates()))
        if self._jobs is not None:
            self._tasks.append(asyncio.create_task(self._load(self._jobs)))
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop requests, jobs and the follower."""
        await self._runner.cleanup()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._jobs is not None:
            await self._jobs.close()

    async def _load(self, jobs: Jobs) -> None:
        while not self._ready:
            try:
                await jobs.load()
                if self._archive is not None:
                    await self._archive.segments()
                self._ready, self._problem = True, ""
            except (StoreError, CatalogError) as problem:
                if str(problem) != self._problem:
                    _log.warning("target_unusable", problem=str(problem))
                self._problem = str(problem)
                await asyncio.sleep(RETRY_SECONDS)
        if self._follower is not None:
            self._tasks.append(asyncio.create_task(self._follower.run()))

    async def _follow_certificates(self) -> None:
        while True:
            await asyncio.sleep(CERTIFICATE_POLL_SECONDS)
            try:
                if self._certificates.reload():
                    _log.info("certificate_reloaded", revision=self._certificates.revision)
            except OSError as problem:
                _log.warning("certificate_reload_failed", problem=str(problem))

    @web.middleware
    async def _authenticate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path != "/healthz" and not bears_token(request, accepted_tokens(self._tokens())):
            return web.json_response({"error": "a bearer token of the cluster is needed"}, status=401)
        try:
            return await handler(request)
        except MissingObjectError as problem:
            return web.json_response({"error": str(problem)}, status=404)
        except (PlanError, StoreError, CatalogError, SealError) as problem:
            return web.json_response({"error": str(problem)}, status=409)

    async def _healthy(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text="ok")

    async def _state(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=msgspec.json.encode(self.state()), content_type="application/json")

    def state(self) -> ArchiverState:
        """Return the report."""
        if self._jobs is None or self._follower is None or self._archive is None:
            return ArchiverState(ready=True, token_revision=token_revision(self._tokens()))
        running = self._jobs.running
        headers = self._archive.headers
        found = self._archive.dialect.gaps(headers)
        mark = self._follower.mark
        return ArchiverState(
            ready=self._ready,
            problem=self._problem or self._follower.error,
            running=RunningJob(type(running).__name__, running.name) if running else None,
            backups=tuple(sorted(self._jobs.manifests.values(), key=lambda each: each.ended)),
            failures=tuple(self._jobs.failures.values()),
            source=self._follower.source,
            recoverable_to=mark.time if mark else 0.0,
            position=mark.position if mark else "",
            segments=len(headers),
            token_revision=token_revision(self._tokens()),
            gaps=tuple(GapState(str(each), each.after_time, each.until_time) for each in found[-MAX_GAPS:]),
        )

    async def _start_job(self, request: web.Request) -> web.StreamResponse:
        try:
            job = msgspec.json.decode(await request.read(), type=AnyJob)
        except msgspec.DecodeError as problem:
            return web.json_response({"error": f"not a job: {problem}"}, status=400)
        if self._jobs is None or self._follower is None or not self._ready:
            return web.json_response({"error": self._problem or "there is no target"}, status=409)
        try:
            if isinstance(job, Follow):
                self._follower.follow(job.source)
            else:
                self._jobs.start(job)
        except JobBusyError as problem:
            return web.json_response({"error": str(problem)}, status=409)
        return web.json_response({}, status=202)

    def _restore_source(self) -> Archive:
        if self._source is None:
            raise PlanError("this cluster has no backup to restore from")
        return self._source

    async def _plan(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        try:
            until = datetime.fromisoformat(query["time"]).timestamp() if query.get("time") else None
        except ValueError:
            raise PlanError(f"{query['time']!r} is not a time in the format of RFC 3339") from None
        target = Target(query.get("backup", ""), until, query.get("gtid", ""))
        try:
            made = await self._restore_source().plan(target)
        except ValueError as problem:
            raise PlanError(str(problem)) from None
        return web.Response(body=msgspec.json.encode(made), content_type="application/json")

    async def _data(self, request: web.Request) -> web.StreamResponse:
        source, name = self._restore_source(), request.match_info["name"]
        manifest = await source.manifest(name)
        if manifest is None:
            raise MissingObjectError(f"the target has no backup {name}")
        return await _stream(request, source.read_data(manifest))

    async def _segment(self, request: web.Request) -> web.StreamResponse:
        number = request.match_info["number"]
        if not number.isdigit() or len(number) > 12:
            raise MissingObjectError(f"{number[:20]!r} is not the number of a segment")
        return await _stream(request, self._restore_source().read_segment(int(number)))


async def _stream(request: web.Request, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    try:
        async for chunk in chunks:
            await response.write(chunk)
    except (StoreError, CatalogError, SealError) as problem:
        # Without the last chunk of the body the recipient detects that it is incomplete.
        _log.error("read_failed", path=request.path, problem=str(problem))
        if request.transport is not None:
            request.transport.abort()
        return response
    await response.write_eof()
    return response


async def run(settings: ArchiverSettings) -> None:
    """Run until SIGTERM or SIGINT."""
    archiver = Archiver(settings, Certificates(settings.tls_directory))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    port = await archiver.start()
    _log.info("archiver_started", cluster=settings.cluster, port=port)
    try:
        await stop.wait()
    finally:
        with contextlib.suppress(OSError):
            await archiver.close()


def main() -> None:
    """Run the archiver with the settings file of the command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m mysqlcluster.backup.archiver SETTINGS.json")
    configure()
    try:
        asyncio.run(run(load_archiver_settings(Path(sys.argv[1]))))
    except (StoreError, ValueError, OSError) as problem:
        sys.exit(f"archiver: {problem}")


if __name__ == "__main__":
    main()
