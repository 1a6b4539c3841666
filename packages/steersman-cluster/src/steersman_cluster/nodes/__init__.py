"""The nodes of the embedded cluster: kubelets that are API clients, against this API server or any other.

`simulated` nodes simulate thousands of Pods; `process` nodes run containers as local processes. Both use the same state
machine of a Pod (`pod_lifecycle`), the same agent (`agent`) and the same registration (`registration`).
"""

from __future__ import annotations

from steersman_cluster.nodes.behaviour import Defaults
from steersman_cluster.nodes.simulated import SimulatedNode
from steersman_cluster.nodes.startup import Nodes, start

__all__ = ["Defaults", "Nodes", "SimulatedNode", "start"]
