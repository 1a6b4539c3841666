"""Changes of server variables while the server runs."""

from __future__ import annotations

from collections.abc import Mapping

from mysqlcluster.engines import Engine
from mysqlcluster.engines.base import Session
from mysqlcluster.server_settings import refusal, spelled

__all__ = ["apply_variables"]


async def apply_variables(
    engine: Engine, session: Session, before: Mapping[str, str], wanted: Mapping[str, str]
) -> tuple[str, ...]:
    """Set the variables that differ, and return the names of those that need a restart.

    Args:
        engine: The flavor of the server.
        session: A session of the local administrator.
        before: The settings of the running server.
        wanted: The complete desired settings.

    Raises:
        ValueError: The operator reserves a variable, or its value is malformed. Nothing is set.
    """
    old = {spelled(name): value for name, value in before.items()}
    new = {spelled(name): value for name, value in wanted.items()}
    for name, value in new.items():
        if problem := refusal(name, value):
            raise ValueError(f"{name} {problem}")
    waiting = {name for name in old if name not in new}
    for name, value in new.items():
        if old.get(name) != value and not await engine.set_variable(session, name, value):
            waiting.add(name)
    return tuple(sorted(waiting))
