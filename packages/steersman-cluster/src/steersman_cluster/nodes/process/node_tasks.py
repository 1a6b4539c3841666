"""Tasks that belong to a Pod, a container or a node and end with it; errors are logged."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from steersman.telemetry.log import get_logger

__all__ = ["start_task"]

_log = get_logger("nodes")


def start_task(group: set[asyncio.Task[None]], work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start a task and return it; `group` holds the task until it ends."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    group.add(task)
    task.add_done_callback(group.discard)
    task.add_done_callback(_log_error)
    return task


def _log_error(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("node_task_failed", task=task.get_name(), problem=repr(problem))
