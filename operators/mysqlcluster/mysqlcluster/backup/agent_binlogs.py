"""The binary logs of a member over HTTPS: a list, and the bytes of each file up to a boundary.

| request | response |
|---|---|
| `GET /v1/binlogs` | `BinlogList`; with `?positions=1` also the position at the start of each file |
| `GET /v1/binlogs/NAME?stream=S&from=N&until=M` | the bytes of one file; 409 after a change of the stream |

The server writes whole groups of transactions under a lock; the size that it reports is the end of a group.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Protocol

import msgspec
from aiohttp import web

from mysqlcluster.backup.binlog import BinlogError, EventReader, is_outside, list_of, previous_of
from mysqlcluster.backup.purging import LogFile

__all__ = ["STREAM_HEADER", "BinlogFile", "BinlogList", "BinlogSource", "add_binlog_routes", "log_file"]

STREAM_HEADER = "X-Binlog-Stream"
CHUNK_BYTES = 1 << 18
START_BYTES = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\.[0-9]{1,12}")


class BinlogFile(msgspec.Struct, frozen=True, rename="camel"):
    """One file."""

    name: str
    size: int
    after: str = ""
    """The last transactions of each domain and server before the file, if requested."""


class BinlogList(msgspec.Struct, frozen=True, rename="camel"):
    """The files of a member, oldest first; they contain all transactions that were committed at `time`."""

    stream: int
    """A number that changes when the server starts; files of another stream may have the same names and other
    content."""
    time: float
    files: tuple[BinlogFile, ...]


class BinlogSource(Protocol):
    """The interface between the routes and a member."""

    async def binary_logs(self) -> tuple[int, tuple[tuple[Path, int], ...]]:
        """Return the number of starts, and the files with their sizes."""
        ...


def add_binlog_routes(application: web.Application, source: BinlogSource) -> None:
    """Serve the binary logs of a member."""

    async def listed(request: web.Request) -> web.StreamResponse:
        now = time.time()
        stream, files = await source.binary_logs()
        starts = [""] * len(files)
        if request.query.get("positions"):
            starts = [await asyncio.to_thread(_position, file) for file, _ in files]
        found = tuple(BinlogFile(file.name, size, after) for (file, size), after in zip(files, starts, strict=True))
        content = msgspec.json.encode(BinlogList(stream, now, found))
        return web.Response(body=content, content_type="application/json")

    async def read(request: web.Request) -> web.StreamResponse:
        name, query = request.match_info["name"], request.query
        try:
            wanted, start, until = int(query["stream"]), int(query["from"]), int(query["until"])
        except (KeyError, ValueError):
            return web.json_response({"error": "stream, from and until must be numbers"}, status=400)
        stream, files = await source.binary_logs()
        found = {file.name: (file, size) for file, size in files}
        if _NAME.fullmatch(name) is None or name not in found or stream != wanted or until > found[name][1]:
            return web.json_response(
                {"error": f"{name} is not a file of stream {wanted} with {until} bytes"}, status=409
            )
        response = web.StreamResponse(
            headers={STREAM_HEADER: str(stream), "Content-Length": str(max(0, until - start))}
        )
        await response.prepare(request)
        with await asyncio.to_thread(open, found[name][0], "rb") as file:
            file.seek(start)
            left = until - start
            while left > 0 and (chunk := await asyncio.to_thread(file.read, min(left, CHUNK_BYTES))):
                left -= len(chunk)
                await response.write(chunk)
        await response.write_eof()
        return response

    application.router.add_get("/v1/binlogs", listed)
    application.router.add_get("/v1/binlogs/{name}", read)


def log_file(file: Path) -> LogFile:
    """Return the properties of a binary log that decide whether it can be deleted.

    Raises:
        BinlogError: The file does not begin as a binary log.
        OSError: It cannot be read.
    """
    return LogFile(file.name, _position(file), file.stat().st_mtime)


def _position(file: Path) -> str:
    """Return the position at the start of a file.

    Raises:
        BinlogError: The file does not begin as a binary log.
    """
    reader = EventReader(magic=True)
    with open(file, "rb") as source:
        while chunk := source.read(START_BYTES):
            for event in reader.feed(chunk):
                gtids = list_of(event)
                if gtids is not None:
                    return ",".join(map(str, gtids))
                previous = previous_of(event)
                if previous is not None:
                    return str(previous)
                if not is_outside(event):
                    return ""
    raise BinlogError(f"{file.name} has no list of GTIDs")
