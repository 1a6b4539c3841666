"""The operator: its description, what a reconcile is given, and the loop that runs a replica.

`Operator` and `Context` are what users write against; `run_operator` with `Settings` is what `steersman run` does.
"""

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
from steersman.operator.http_server import BindError
from steersman.operator.leaderelection import LeaderElector, LeadershipLostError, LeaseTiming, NotLeaderError
from steersman.operator.operator import Operator
from steersman.operator.run import run_operator
from steersman.operator.settings import Settings, SettingsError, load_settings

__all__ = [
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
    "Settings",
    "SettingsError",
    "SyncContext",
    "TimerDeclaration",
    "Watch",
    "WebhookDeclaration",
    "load_settings",
    "run_operator",
]
