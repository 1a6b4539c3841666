"""The state machine of a cluster: from the stored state and an observation to the next stored step, or to actions.

All functions are pure. `docs/safety.md` of this operator states why no acknowledged transaction is lost, and
`tests/model` searches all interleavings of small clusters for a counterexample.
"""

from mysqlcluster.machine.decide import decide
from mysqlcluster.machine.state import (
    ClusterState,
    Decision,
    Kind,
    Notice,
    Policy,
    Quorum,
    Step,
    Transition,
)

__all__ = [
    "ClusterState",
    "Decision",
    "Kind",
    "Notice",
    "Policy",
    "Quorum",
    "Step",
    "Transition",
    "decide",
]
