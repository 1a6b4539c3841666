"""Faults of Pods and nodes that run as processes: partitions, delays, losses, pauses, kills, lost nodes.

A network fault names Pods, nodes and the API server; it follows a Pod of a name to its next address. Probes and
port-forwarding of the node are not affected by it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal, cast, get_args

from steersman_cluster.errors import APIError, bad_request
from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.network.addresses import API_ADDRESS
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork, Rule
from steersman_cluster.nodes.node_pod import NodePod
from steersman_cluster.nodes.process.container_run import Run
from steersman_cluster.nodes.process.processes import children_of
from steersman_cluster.nodes.process.runtime import ProcessRuntime

__all__ = ["API_SERVER", "EVERYTHING", "Fault", "PodFaults", "Verb"]

Verb = Literal["partition", "delay", "drop", "pause", "resume", "kill", "node-loss", "node-return"]
_VERBS: Final[Mapping[str, Verb]] = {verb: verb for verb in get_args(Verb)}
API_SERVER: Final = "apiserver"
EVERYTHING: Final = "*"
_NETWORK: Final = ("partition", "delay", "drop")
_LASTING: Final = (*_NETWORK, "pause", "node-loss")
_MAX_SIGNAL_ROUNDS: Final = 20


@dataclass(frozen=True, slots=True)
class Fault:
    """A requested fault. Targets are `NAMESPACE/POD`, `node/NAME`, `apiserver` or `*`."""

    verb: Verb
    sources: tuple[str, ...] = ()
    """The targets of the fault; for network faults those on one side."""
    destinations: tuple[str, ...] = (EVERYTHING,)
    """The other side of a network fault."""
    one_way: bool = False
    """Whether packets from the destinations to the sources pass."""
    seconds: float = 0.0
    jitter_seconds: float = 0.0
    share: float = 1.0
    container: str = ""
    """The container to pause, resume or kill; by default all of the Pod."""

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Fault:
        """Read a fault from JSON. Raises `APIError` (400) that names the field."""
        verb = _VERBS.get(str(fields.get("verb")))
        if verb is None:
            raise bad_request(f"verb: {fields.get('verb')!r} is not one of {', '.join(_VERBS)}")
        fault = cls(
            verb,
            _texts(fields, "sources", ()),
            _texts(fields, "destinations", (EVERYTHING,)),
            bool(fields.get("oneWay", False)),
            _number(fields, "seconds", 0.0, 3600.0),
            _number(fields, "jitterSeconds", 0.0, 3600.0),
            _number(fields, "share", 1.0, 1.0),
            str(fields.get("container") or ""),
        )
        if not fault.sources:
            raise bad_request("sources: name at least one target, such as default/web-0 or node/node-1")
        return fault

    def shown(self) -> dict[str, Any]:
        """Return the JSON of the fault for responses."""
        found: dict[str, Any] = {"verb": self.verb, "sources": list(self.sources)}
        if self.verb in _NETWORK:
            found |= {"destinations": list(self.destinations), "oneWay": self.one_way}
        if self.verb == "delay":
            found |= {"seconds": self.seconds, "jitterSeconds": self.jitter_seconds}
        if self.verb == "drop":
            found["share"] = self.share
        return found | ({"container": self.container} if self.container else {})


def _texts(fields: Mapping[str, Any], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, list) or not all(isinstance(one, str) for one in cast(list[Any], value)):
        raise bad_request(f"{name}: it has to be a list of strings")
    return tuple(cast(list[str], value))


def _number(fields: Mapping[str, Any], name: str, default: float, greatest: float) -> float:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= greatest:
        raise bad_request(f"{name}: it has to be a number from 0 to {greatest:g}")
    return float(value)


@dataclass(slots=True)
class PodFaults:
    """The faults of the nodes of one agent. `network` is `None` if Pods share the network of this machine."""

    agent: Agent
    runtime: ProcessRuntime
    network: ClusterNetwork | None
    present: dict[str, Fault] = field(default_factory=dict[str, Fault])
    """The active faults by id."""
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.runtime.network_changed = self.refresh

    async def add(self, fault: Fault) -> str:
        """Start a fault; returns its id, or an empty string for a fault without a duration.

        Raises:
            APIError: 404 for a target that does not exist, 400 for a network fault without a network.
        """
        if fault.verb in _NETWORK and self.network is None:
            raise bad_request(f"{fault.verb} needs a cluster with network=namespaces")
        await self._begin(fault)
        if fault.verb not in _LASTING:
            self._end_opposite(fault)
            return ""
        identity = str(next(self._numbers))
        self.present[identity] = fault
        self.refresh()
        return identity

    async def remove(self, identity: str) -> None:
        """End a fault. Raises `APIError` (404) for one that is not active."""
        fault = self.present.pop(identity, None)
        if fault is None:
            raise APIError(404, "NotFound", f'fault "{identity}" not found')
        self.refresh()
        if fault.verb == "pause":
            self._signal(fault, signal.SIGCONT, missing=True)
        elif fault.verb == "node-loss":
            for name in fault.sources:
                await self._return_node(_node_of(name))

    async def clear(self) -> None:
        """End all faults."""
        for identity in list(self.present):
            await self.remove(identity)

    def refresh(self) -> None:
        """Send the router the rules for the current addresses of the named Pods."""
        if self.network is None:
            return
        rules = [rule for fault in self.present.values() for rule in self._rules(fault)]
        self.network.set_faults("pods", rules)

    # Network faults.

    def _rules(self, fault: Fault) -> list[Rule]:
        if fault.verb == "node-loss":
            here = self._addresses(fault.sources)
            return [Rule(here, (), drop=1.0), Rule((), here, drop=1.0)] if here else []
        if fault.verb not in _NETWORK:
            return []
        here, there = self._addresses(fault.sources), self._addresses(fault.destinations)
        if (not here and EVERYTHING not in fault.sources) or (not there and EVERYTHING not in fault.destinations):
            return []  # The Pods have no address now.
        drop = {"partition": 1.0, "drop": fault.share}.get(fault.verb, 0.0)
        delay = (fault.seconds, fault.jitter_seconds) if fault.verb == "delay" else (0.0, 0.0)
        rules = [Rule(here, there, drop, *delay)]
        return rules if fault.one_way else [*rules, Rule(there, here, drop, *delay)]

    def _addresses(self, targets: Sequence[str]) -> tuple[str, ...]:
        """Return the addresses of targets; none for Pods without an address, and for `*`."""
        found: dict[str, None] = {}
        for target in targets:
            if target == API_SERVER:
                found[API_ADDRESS] = None
            elif target.startswith("node/"):
                node = _node_of(target)
                found[self.agent.registrations[node].info.address] = None
                found |= {h.pod_state.ip: None for h in self.agent.pods.values() if h.node == node and h.pod_state.ip}
            elif target != EVERYTHING:
                node_pod = self.agent.find(*_pod_of(target))
                resources = self.runtime.resources.get(node_pod.uid) if node_pod is not None else None
                if resources is not None and resources.facts.ip:
                    found[resources.facts.ip] = None
        return tuple(found)

    # Faults of processes and nodes.

    async def _begin(self, fault: Fault) -> None:
        self._check(fault)
        match fault.verb:
            case "pause":
                self._signal(fault, signal.SIGSTOP)
            case "resume":
                self._signal(fault, signal.SIGCONT)
            case "kill":
                self._kill(fault)
            case "node-loss":
                for name in fault.sources:
                    await self._lose_node(_node_of(name))
            case "node-return":
                for name in fault.sources:
                    await self._return_node(_node_of(name))
            case _:
                pass

    def _check(self, fault: Fault) -> None:
        """Check that every target exists and fits the verb."""
        targets = (*fault.sources, *fault.destinations) if fault.verb in _NETWORK else fault.sources
        for target in targets:
            is_node = target.startswith("node/")
            if fault.verb.startswith("node-") and not is_node:
                raise bad_request(f"{fault.verb}: {target!r} is not a node: write node/NAME")
            if is_node:
                if _node_of(target) not in self.agent.registrations:
                    raise APIError(404, "NotFound", f"{target}: there is no such process node")
            elif target not in (API_SERVER, EVERYTHING):
                self._held(target)
            elif fault.verb not in _NETWORK:
                raise bad_request(f"{fault.verb}: {target!r} is not a Pod: write NAMESPACE/NAME")

    def _held(self, target: str) -> NodePod:
        node_pod = self.agent.find(*_pod_of(target))
        if node_pod is None:
            raise APIError(404, "NotFound", f"{target}: there is no such Pod on a process node")
        return node_pod

    def _end_opposite(self, fault: Fault) -> None:
        """Remove the pause or loss that a `resume` or `node-return` has ended."""
        ended = {"resume": "pause", "node-return": "node-loss"}.get(fault.verb)
        for identity, other in list(self.present.items()):
            if other.verb == ended and set(other.sources) <= set(fault.sources):
                del self.present[identity]
        self.refresh()

    def _runs(self, fault: Fault, *, missing: bool = False) -> list[Run]:
        found: list[Run] = []
        for target in fault.sources:
            if target.startswith("node/"):
                uids = [node_pod.uid for node_pod in self.agent.pods.values() if node_pod.node == _node_of(target)]
            elif missing and self.agent.find(*_pod_of(target)) is None:
                continue
            else:
                uids = [self._held(target).uid]
            every = [resources for uid in uids if (resources := self.runtime.resources.get(uid)) is not None]
            found += [
                run for resources in every for name, run in resources.runs.items() if fault.container in ("", name)
            ]
        running = [run for run in found if not run.process.ended]
        if fault.container and not running and not missing:
            raise APIError(404, "NotFound", f"container {fault.container} of {', '.join(fault.sources)} does not run")
        return running

    def _signal(self, fault: Fault, number: int, *, missing: bool = False) -> None:
        """Signal every process of the containers, including new ones."""
        for run in self._runs(fault, missing=missing):
            _signal_tree(run.process.pid, number, sandboxed=self.runtime.mode != "plain")

    def _kill(self, fault: Fault) -> None:
        for run in self._runs(fault):
            run.process.signal(signal.SIGKILL, sandboxed=self.runtime.mode != "plain")

    async def _lose_node(self, name: str) -> None:
        registration = self.agent.registrations[name]
        registration.silent = True
        self._signal(Fault("pause", (f"node/{name}",)), signal.SIGSTOP)
        await registration.mark("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")

    async def _return_node(self, name: str) -> None:
        """Return a node as after a power failure: its containers have ended and start again."""
        self._kill(Fault("kill", (f"node/{name}",)))
        registration = self.agent.registrations[name]
        if registration.silent:
            await registration.recovered()
            self.agent.resume(name)


def _node_of(target: str) -> str:
    return target.removeprefix("node/")


def _pod_of(target: str) -> tuple[str, str]:
    namespace, slash, name = target.partition("/")
    if not slash or not name:
        raise bad_request(f"{target!r} is no target: write NAMESPACE/POD, node/NAME, {API_SERVER} or {EVERYTHING}")
    return namespace, name


def _signal_tree(pid: int, number: int, *, sandboxed: bool) -> None:
    """Signal the processes below a container's monitor and init; without a sandbox also the process itself."""
    done: set[int] = set()
    for _ in range(_MAX_SIGNAL_ROUNDS):
        tops = [app for init in children_of(pid) for app in children_of(init)] if sandboxed else [pid]
        every = _below(tops, children_of)
        if every <= done:
            return
        for process in every - done:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
        done |= every


def _below(tops: Sequence[int], children: Callable[[int], list[int]]) -> set[int]:
    found: set[int] = set()
    waiting = list(tops)
    while waiting:
        process = waiting.pop()
        if process not in found:
            found.add(process)
            waiting += children(process)
    return found
