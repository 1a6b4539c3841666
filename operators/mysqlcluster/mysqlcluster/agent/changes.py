"""The stream of an agent that tells the operator when its member has changed.

The response to `GET /v1/changes?heartbeat=SECONDS` has no end. Its bytes are `CHANGE`, first at once and then after each
change of `MemberState.condition`, and `HEARTBEAT` after each time of `heartbeat` seconds without a change.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable

from aiohttp import web

from mysqlcluster.observation import CHANGE, HEARTBEAT, MemberState

__all__ = ["send_changes"]

CHECK_SECONDS = 1.0
"""Time between reads of the member."""
MIN_HEARTBEAT_SECONDS, MAX_HEARTBEAT_SECONDS = 0.1, 60.0


async def send_changes(
    request: web.Request, state: Callable[[], Awaitable[MemberState]], closing: asyncio.Event
) -> web.StreamResponse:
    """Respond with the changes of a member until the client disconnects or the agent closes.

    Args:
        request: The request, with the query `heartbeat`: seconds from 0.1 to 60.
        state: Reads the member.
        closing: Is set when the agent closes.
    """
    seconds = _seconds(request.query.get("heartbeat", ""))
    if seconds is None:
        text = f"heartbeat must be a number from {MIN_HEARTBEAT_SECONDS:g} to {MAX_HEARTBEAT_SECONDS:g}"
        return web.json_response({"error": text}, status=400)
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    loop = asyncio.get_running_loop()
    condition: MemberState | None = None
    written = loop.time()
    with contextlib.suppress(ConnectionError):  # the client has disconnected
        while not closing.is_set():
            found = (await state()).condition
            if found != condition or loop.time() - written >= seconds:
                await response.write(CHANGE if found != condition else HEARTBEAT)
                condition, written = found, loop.time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(CHECK_SECONDS, seconds)):
                    await closing.wait()
        await response.write_eof()
    return response


def _seconds(text: str) -> float | None:
    """Return the time between heartbeats; `None` if it is not a number within the limits."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and MIN_HEARTBEAT_SECONDS <= seconds <= MAX_HEARTBEAT_SECONDS else None
