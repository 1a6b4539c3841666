"""Tools for tests of operators: clusters, faults, recorders, virtual time, simulations.

`EmbeddedCluster` and `ControlPlane` are clusters with the interface `Cluster`. The pytest plugin of this package has
fixtures for them. `faults` is the module with the faults that a test can inject. A name is loaded from its module at
its first use, so that the plugin costs nothing in test runs without a cluster.
"""

from __future__ import annotations

TYPE_CHECKING = False  # An import from typing would cost more than the rest of this module.

if TYPE_CHECKING:
    from steersman.testing import faults
    from steersman.testing.audit import Audit, call_of
    from steersman.testing.cluster import (
        Cluster,
        ExistingCluster,
        KubectlError,
        PolicyRule,
    )
    from steersman.testing.cluster_http import CallError
    from steersman.testing.controlplane.audit import AuditEvent, AuditPolicy, UnsupportedError, read_audit_log
    from steersman.testing.controlplane.binaries import (
        Binaries,
        BinariesNotFoundError,
        available,
        cache_root,
        find_binaries,
    )
    from steersman.testing.controlplane.control_plane import ControlPlane
    from steersman.testing.controlplane.process import ComponentError
    from steersman.testing.conversion import objects, round_trip, round_trips
    from steersman.testing.embedded import EmbeddedCluster
    from steersman.testing.faults import Fault, Faults, Match
    from steersman.testing.loop import DeadlockError, NoProgressError, VirtualTimeLoop, virtual_time
    from steersman.testing.recording import Reconcile, Recorder, recorded
    from steersman.testing.running import Operators, RunningOperator
    from steersman.testing.simulation import SimulatedOperator, Simulation, simulated
    from steersman.testing.waiting import eventually

_MODULES = {
    "Audit": "steersman.testing.audit",
    "call_of": "steersman.testing.audit",
    "ControlPlane": "steersman.testing.controlplane.control_plane",
    "AuditEvent": "steersman.testing.controlplane.audit",
    "AuditPolicy": "steersman.testing.controlplane.audit",
    "read_audit_log": "steersman.testing.controlplane.audit",
    "Binaries": "steersman.testing.controlplane.binaries",
    "BinariesNotFoundError": "steersman.testing.controlplane.binaries",
    "available": "steersman.testing.controlplane.binaries",
    "cache_root": "steersman.testing.controlplane.binaries",
    "find_binaries": "steersman.testing.controlplane.binaries",
    "Cluster": "steersman.testing.cluster",
    "ExistingCluster": "steersman.testing.cluster",
    "KubectlError": "steersman.testing.cluster",
    "PolicyRule": "steersman.testing.cluster",
    "UnsupportedError": "steersman.testing.controlplane.audit",
    "CallError": "steersman.testing.cluster_http",
    "ComponentError": "steersman.testing.controlplane.process",
    "objects": "steersman.testing.conversion",
    "round_trip": "steersman.testing.conversion",
    "round_trips": "steersman.testing.conversion",
    "EmbeddedCluster": "steersman.testing.embedded",
    "Fault": "steersman.testing.faults",
    "Faults": "steersman.testing.faults",
    "Match": "steersman.testing.faults",
    "DeadlockError": "steersman.testing.loop",
    "NoProgressError": "steersman.testing.loop",
    "VirtualTimeLoop": "steersman.testing.loop",
    "virtual_time": "steersman.testing.loop",
    "Reconcile": "steersman.testing.recording",
    "Recorder": "steersman.testing.recording",
    "recorded": "steersman.testing.recording",
    "Operators": "steersman.testing.running",
    "RunningOperator": "steersman.testing.running",
    "SimulatedOperator": "steersman.testing.simulation",
    "Simulation": "steersman.testing.simulation",
    "simulated": "steersman.testing.simulation",
    "eventually": "steersman.testing.waiting",
}
"""The module of each public name."""

__all__ = [
    "Audit",
    "AuditEvent",
    "AuditPolicy",
    "Binaries",
    "BinariesNotFoundError",
    "CallError",
    "Cluster",
    "ComponentError",
    "ControlPlane",
    "DeadlockError",
    "EmbeddedCluster",
    "ExistingCluster",
    "Fault",
    "Faults",
    "KubectlError",
    "Match",
    "NoProgressError",
    "Operators",
    "PolicyRule",
    "Reconcile",
    "Recorder",
    "RunningOperator",
    "SimulatedOperator",
    "Simulation",
    "UnsupportedError",
    "VirtualTimeLoop",
    "available",
    "cache_root",
    "call_of",
    "eventually",
    "faults",
    "find_binaries",
    "objects",
    "read_audit_log",
    "recorded",
    "round_trip",
    "round_trips",
    "simulated",
    "virtual_time",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "faults":
        return import_module("steersman.testing.faults")
    if name not in _MODULES:
        raise AttributeError(f"module 'steersman.testing' has no attribute {name!r}")
    try:
        module = import_module(_MODULES[name])
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != "steersman_cluster":
            raise
        from steersman.extras import require

        require(f"steersman.testing.{name}", "dev", "steersman_cluster")
        raise
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
