"""The operator: its description, the context of a reconcile, and the loop that runs a replica.

`Operator` and `Context` are for authors of operators; `run_operator` with `Settings` runs one, as `steersman run` does.
A name is loaded from its module at its first use, so that the command line can read the settings alone.
"""

from __future__ import annotations

TYPE_CHECKING = False  # An import from typing would cost more than the rest of this module.

if TYPE_CHECKING:
    from steersman.operator.context import Context, SyncContext
    from steersman.operator.declarations import (
        ControllerDeclaration,
        DeclarationError,
        FinalizerDeclaration,
        HookDeclaration,
        Permission,
        Place,
        TimerDeclaration,
        Watch,
        WebhookDeclaration,
    )
    from steersman.operator.http_server import Answer, BindError, Route, ThreadServer, Visit
    from steersman.operator.leaderelection.elector import LeaderElector, LeadershipLostError, NotLeaderError
    from steersman.operator.leaderelection.state import LeaseTiming
    from steersman.operator.operator import Operator
    from steersman.operator.run import run_operator
    from steersman.operator.settings import Address, Settings, SettingsError, load_settings, parse_address

_MODULES = {
    "Context": "steersman.operator.context",
    "SyncContext": "steersman.operator.context",
    "ControllerDeclaration": "steersman.operator.declarations",
    "DeclarationError": "steersman.operator.declarations",
    "FinalizerDeclaration": "steersman.operator.declarations",
    "HookDeclaration": "steersman.operator.declarations",
    "Permission": "steersman.operator.declarations",
    "Place": "steersman.operator.declarations",
    "TimerDeclaration": "steersman.operator.declarations",
    "Watch": "steersman.operator.declarations",
    "WebhookDeclaration": "steersman.operator.declarations",
    "Answer": "steersman.operator.http_server",
    "BindError": "steersman.operator.http_server",
    "Route": "steersman.operator.http_server",
    "ThreadServer": "steersman.operator.http_server",
    "Visit": "steersman.operator.http_server",
    "LeaderElector": "steersman.operator.leaderelection.elector",
    "LeadershipLostError": "steersman.operator.leaderelection.elector",
    "NotLeaderError": "steersman.operator.leaderelection.elector",
    "LeaseTiming": "steersman.operator.leaderelection.state",
    "Operator": "steersman.operator.operator",
    "run_operator": "steersman.operator.run",
    "Address": "steersman.operator.settings",
    "Settings": "steersman.operator.settings",
    "SettingsError": "steersman.operator.settings",
    "load_settings": "steersman.operator.settings",
    "parse_address": "steersman.operator.settings",
}
"""The module of each public name."""

__all__ = [
    "Address",
    "Answer",
    "BindError",
    "Context",
    "ControllerDeclaration",
    "DeclarationError",
    "FinalizerDeclaration",
    "HookDeclaration",
    "LeaderElector",
    "LeadershipLostError",
    "LeaseTiming",
    "NotLeaderError",
    "Operator",
    "Permission",
    "Place",
    "Route",
    "Settings",
    "SettingsError",
    "SyncContext",
    "ThreadServer",
    "TimerDeclaration",
    "Visit",
    "Watch",
    "WebhookDeclaration",
    "load_settings",
    "parse_address",
    "run_operator",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'steersman.operator' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
