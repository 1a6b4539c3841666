"""The nodes of the embedded cluster: kubelets that are API clients, against this API server or any other.

`simulated` nodes run Pods in pretence, thousands of them; `process` nodes run containers as local processes. Both share
one state machine of a Pod's life (`machine`), one shell around it (`agent`) and one way to register (`registration`).
"""

from __future__ import annotations

from steersman_cluster.nodes.behaviour import Defaults
from steersman_cluster.nodes.simulated import SimulatedNode
from steersman_cluster.nodes.startup import Nodes, start

__all__ = ["Defaults", "Nodes", "SimulatedNode", "start"]
