"""The waits of a starting replica: for the API server, for the caches, for the kinds of one controller."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from steersman.cache import Cache, SyncTimeoutError
from steersman.client import Client, ClientError, Forbidden
from steersman.client.config import Config
from steersman.operator.controller_set import RunningController, unsynced
from steersman.telemetry.log import get_logger

__all__ = ["describe_unsynced", "start_caches", "wait_for_api_server", "wait_for_kinds_of"]

log = get_logger("operator")

_MAX_RETRY_SECONDS = 15.0
_CHECK_SECONDS = 0.1
"""The time after which a new problem of a kind ends the wait for it."""


async def wait_for_api_server(
    client: Client, config: Config, rng: random.Random, set_unready: Callable[[str], None]
) -> None:
    """Return when the API server has answered a request. A failure is logged when it differs from the last one.

    Args:
        client: The client.
        config: The configuration of the client, for the log lines.
        rng: The source of jitter between attempts.
        set_unready: Gets the reason for which the replica is not ready, after each failure.
    """
    last_error, wait = "", 0.5
    while True:
        version = "unknown"
        try:
            version = (await client.server_version()).git_version
        except Forbidden:
            pass  # The server accepts the credentials, even if it does not allow them to read the version.
        except ClientError as problem:
            set_unready(f"the API server cannot be used: {problem}")
            if str(problem) != last_error:
                last_error = str(problem)
                log.warning("api_server_unusable", server=config.server, error=last_error)
            await asyncio.sleep(wait * (1 + rng.random() / 2))
            wait = min(wait * 2, _MAX_RETRY_SECONDS)
            continue
        log.info("connected", server=config.server, version=version, context=config.context)
        return


async def start_caches(cache: Cache, sync_timeout: float) -> None:
    """Start the informers and wait until each has synced or reports a problem.

    A kind with a problem, for instance without a CRD, does not delay the controllers of other kinds.

    Args:
        cache: The cache.
        sync_timeout: Seconds between two log lines about informers that have not synced.
    """
    await cache.start()
    waited, due = 0.0, max(1.0, sync_timeout)
    while any(not i.problem for i in unsynced(cache.informers)):
        try:
            await cache.wait_synced(_CHECK_SECONDS, [i for i in unsynced(cache.informers) if not i.problem])
        except SyncTimeoutError as behind:
            waited += _CHECK_SECONDS
            if waited >= due:
                due += max(1.0, sync_timeout)
                log.warning("caches_not_synced", seconds=round(waited), reason=str(behind))


async def wait_for_kinds_of(cache: Cache, running: RunningController, sync_timeout: float) -> None:
    """Wait without limit until the kinds of one controller have synced (C3).

    Args:
        cache: The cache.
        running: The controller.
        sync_timeout: Seconds between two log lines about kinds that have not synced.
    """
    while True:
        try:
            await cache.wait_synced(max(1.0, sync_timeout), running.informers)
            return
        except SyncTimeoutError as behind:
            log.warning("controller_waits_for_kinds", controller=running.declaration.name, reason=str(behind))


def describe_unsynced(cache: Cache) -> str | None:
    """Return the kinds that have not synced with their problems, or `None` if all have synced."""
    behind = unsynced(cache.informers)
    if not behind:
        return None
    return "; ".join(f"{i.kind}: {i.problem or 'still listing'}" for i in behind)
