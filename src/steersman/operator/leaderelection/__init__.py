"""Leader election: only one replica of an operator writes.

`state` is the election as a pure state machine, `elector` takes part in it for this process and checks each write,
`lease` reads and writes the Lease, and `pod_lock` proves that earlier processes of the Pod have ended.
"""

from steersman.operator.leaderelection.elector import (
    LeaderElector,
    LeadershipLostError,
    LeaseGate,
    NotLeaderError,
    monotonic,
)
from steersman.operator.leaderelection.lease import ApiLease
from steersman.operator.leaderelection.pod_lock import PodLock, new_identity
from steersman.operator.leaderelection.state import LeaseTiming

__all__ = [
    "ApiLease",
    "LeaderElector",
    "LeadershipLostError",
    "LeaseGate",
    "LeaseTiming",
    "NotLeaderError",
    "PodLock",
    "monotonic",
    "new_identity",
]
