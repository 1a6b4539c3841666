"""Runs the state machines of Pods: one watch, one heap of timers and a few writers for any number of Pods.

An `Agent` serves one node or several. It passes events of the watch, the timers and the runtime to
`pod_lifecycle.step`, passes the effects to the runtime, and writes changes of `status`. There is no task per Pod: a
changed Pod waits for one of the writers, and later changes are part of the same write.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec

from steersman.cache import Cache, Change
from steersman.client import ApiError, Client, ClientError, Conflict, NotFound
from steersman.k8s import Pod
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger
from steersman_cluster.nodes.node_pod import NodePod, Runtime
from steersman_cluster.nodes.pod_admission import rejection
from steersman_cluster.nodes.pod_events import End, Event, Remove, Report, Sync, Tick, Wake
from steersman_cluster.nodes.pod_lifecycle import begin, step
from steersman_cluster.nodes.pod_state import PodState, Refusal, Role
from steersman_cluster.nodes.recorder import Recorder
from steersman_cluster.nodes.registration import Registration
from steersman_cluster.nodes.resizes import refusal_of
from steersman_cluster.nodes.status import RESIZE_CONDITIONS, status_of
from steersman_cluster.objects import Object, dig, meta, uid_of

__all__ = ["Agent", "is_echo"]

_STRATEGIC = "application/strategic-merge-patch+json"
_WRITERS: Final = 8
_RETRY: Final = 0.5
_SYNC_TIMEOUT: Final = 30.0
_FIELDS: Final = {Role.MAIN: "containers", Role.EPHEMERAL: "ephemeralContainers"}

_log = get_logger("nodes")


class Agent:
    """Kubelet of the nodes in `registrations`, by name. `now` is the wall clock; delays run on the loop's."""

    def __init__(
        self,
        client: Client,
        registrations: Mapping[str, Registration],
        runtime: Callable[[Agent], Runtime],
        *,
        now: Now = utc_now,
        events: bool = True,
    ) -> None:
        self.client = client
        self.registrations = registrations
        self.recorder = Recorder(client, self.clock)
        self.pods: dict[str, NodePod] = {}
        """Pods by uid."""
        self._now = now
        self._events = events
        self._names: dict[tuple[str, str], NodePod] = {}
        self._deferred: set[str] = set()
        """The uids of the Pods whose resizes wait for resources of their node."""
        self._heap: list[tuple[float, int, str, Event]] = []
        self._numbers = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False
        self._dirty: asyncio.Queue[NodePod] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._cache = Cache(client, now=now)
        self.runtime = runtime(self)

    def clock(self) -> float:
        """Seconds since the epoch."""
        return self._now().timestamp()

    # State of the agent.

    async def start(self) -> None:
        """Register the nodes, then watch their Pods; returns after the initial list."""
        self._loop = asyncio.get_running_loop()
        await asyncio.gather(*(r.register() for r in self.registrations.values()))
        names = list(self.registrations)
        fields = f"spec.nodeName={names[0]}" if len(names) == 1 else "spec.nodeName!="
        informer = self._cache.informer(Pod, fields=fields)
        informer.add_handler(self._changed)
        spawn = self._loop.create_task
        self._tasks = [
            *(spawn(r.run(), name=f"heartbeat {name}") for name, r in self.registrations.items()),
            *(spawn(self._write_statuses(), name=f"pod status {n}") for n in range(_WRITERS)),
            spawn(self.recorder.run(), name="node events"),
        ]
        await self._cache.start()
        await self._cache.wait_synced(_SYNC_TIMEOUT)

    async def close(self) -> None:
        """Stop at once, without changes of the Pods in the API."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []
        await self._cache.close()

    def find(self, namespace: str, name: str) -> NodePod | None:
        """Return the Pod of that name, if it is on one of these nodes."""
        return self._names.get((namespace, name))

    # Events.

    def _changed(self, change: Change) -> None:
        if change.new is None:
            self._forget_pod(change.entry.uid)
            return
        pod: Object = msgspec.json.decode(change.new.raw())
        node = dig(pod, "spec", "nodeName", default="")
        if node not in self.registrations:
            return
        node_pod = self.pods.get(uid_of(pod))
        if node_pod is not None:
            if node_pod.uid not in self._deferred and is_echo(node_pod, pod):
                node_pod.pod_state = replace(node_pod.pod_state, pod=pod)
            else:
                self.post(node_pod.uid, Sync(pod, self._refusal(node_pod, pod)))
            self.runtime.synced(node_pod)
            return
        node_pod = NodePod(begin(pod, self.clock(), adopt=self.runtime.adopts), node)
        self.pods[node_pod.uid] = node_pod
        self._names[node_pod.namespace, node_pod.name] = node_pod
        self.runtime.added(node_pod)
        self._queue(node_pod)
        rejected = None if dig(pod, "status", "startTime") else rejection(pod, self._unfinished(node_pod))
        self.post(node_pod.uid, Tick() if rejected is None else End(rejected))

    def _unfinished(self, node_pod: NodePod) -> Iterator[Object]:
        """Yield the unfinished Pods of a node, except for one Pod."""
        for other in self.pods.values():
            if other is not node_pod and other.node == node_pod.node and not other.pod_state.finished:
                yield other.pod_state.pod

    def _forget_pod(self, uid: str) -> None:
        node_pod = self.pods.pop(uid, None)
        if node_pod is None:
            return
        node_pod.deleted = True
        if self._names.get((node_pod.namespace, node_pod.name)) is node_pod:
            del self._names[node_pod.namespace, node_pod.name]
        self.runtime.forgotten(node_pod)
        self._deferred.discard(uid)
        self._retry_resizes(node_pod.node)

    def _refusal(self, node_pod: NodePod, pod: Object) -> Refusal | None:
        """Return why the requested resources of a Pod are not allocated; `None` if they are."""
        others = (one.pod_state for one in self.pods.values() if one.node == node_pod.node and one is not node_pod)
        allocatable = self.registrations[node_pod.node].info.capacity
        found = refusal_of(pod, node_pod.pod_state, others, allocatable)
        if found is not None and found.reason == "Deferred":
            self._deferred.add(node_pod.uid)
        else:
            self._deferred.discard(node_pod.uid)
        return found

    def _retry_resizes(self, node: str) -> None:
        """Retry the resizes that wait for resources of a node."""
        for uid in sorted(self._deferred):
            node_pod = self.pods.get(uid)
            if node_pod is not None and node_pod.node == node:
                pod = node_pod.pod_state.pod
                self.post(uid, Sync(pod, self._refusal(node_pod, pod)))

    def post(self, uid: str, event: Event) -> None:
        """Process an event now; an event for a deleted Pod is dropped."""
        node_pod = self.pods.get(uid)
        if node_pod is None or self._closed:
            return
        before = node_pod.pod_state
        node_pod.pod_state, effects = step(before, event, self.clock())
        for effect in effects:
            match effect:
                case Report():
                    self._report(node_pod, effect)
                case Wake(at):
                    self._wake(node_pod, at)
                case Remove():
                    pass  # The writer reads `pod_state.removed`.
                case _:
                    self.runtime.perform(node_pod, effect)
        after = node_pod.pod_state
        if after is not before:
            self._queue(node_pod)
            if self._deferred and (after.finished != before.finished or after.resize_generation):
                self._loop.call_soon(self._retry_resizes, node_pod.node)

    def post_after(self, seconds: float, uid: str, event: Event) -> None:
        """Process an event after `delay` seconds."""
        self._at(self._loop.time() + seconds, uid, event)

    def _wake(self, node_pod: NodePod, at: float) -> None:
        when = self._loop.time() + max(0.0, at - self.clock())
        # One pending Tick per Pod suffices, the earliest: each step sets the next one.
        if node_pod.timer and node_pod.timer <= when + 0.001:
            return
        node_pod.timer = when
        self._at(when, node_pod.uid, Tick())

    def _at(self, when: float, uid: str, event: Event) -> None:
        heapq.heappush(self._heap, (when, next(self._numbers), uid, event))
        if self._heap[0][0] == when:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._loop.call_at(when, self._process_due_events)

    def _process_due_events(self) -> None:
        """Process the events that are due, and set the alarm for the next one."""
        now = self._loop.time() + 0.001
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._heap and self._heap[0][0] <= now:
            _, _, uid, event = heapq.heappop(self._heap)
            if isinstance(event, Tick) and (node_pod := self.pods.get(uid)) is not None:
                node_pod.timer = 0.0
            self.post(uid, event)
        if self._heap and self._alarm is None:
            self._alarm = self._loop.call_at(self._heap[0][0], self._process_due_events)

    def _report(self, node_pod: NodePod, report: Report) -> None:
        path = ""
        if report.container is not None:
            path = f"spec.{_FIELDS.get(report.container.role, 'initContainers')}{{{report.container.name}}}"
        self.report(node_pod, report.type, report.reason, report.message, path)

    def report(self, node_pod: NodePod, type: str, reason: str, message: str, field_path: str = "") -> None:
        """Record an Event about a Pod."""
        if self._events and not self.registrations[node_pod.node].silent:
            pod = {"kind": "Pod", "apiVersion": "v1", "metadata": node_pod.pod_state.pod["metadata"]}
            self.recorder.record(node_pod.node, pod, type, reason, message, field_path)

    # Status writes.

    def resume(self, node: str) -> None:
        """Write the statuses that were held back while the node was silent."""
        for node_pod in self.pods.values():
            if node_pod.node == node:
                node_pod.sent = {}
                self._queue(node_pod)

    def _queue(self, node_pod: NodePod) -> None:
        if not node_pod.waiting and not node_pod.deleted:
            node_pod.waiting = True
            self._dirty.put_nowait(node_pod)

    async def _write_statuses(self) -> None:
        while True:
            node_pod = await self._dirty.get()
            node_pod.waiting = False
            if node_pod.writing or node_pod.deleted or self.registrations[node_pod.node].silent:
                continue  # The writer of this Pod checks it again at the end; `resume` queues Pods of silent nodes.
            node_pod.writing = True
            try:
                if self._heap and self._heap[0][0] <= self._loop.time():
                    self._process_due_events()  # An event that is due now is part of this write.
                await self._write(node_pod)
            except ClientError as problem:
                _log.debug("pod_status_write_failed", pod=f"{node_pod.namespace}/{node_pod.name}", problem=str(problem))
                node_pod.sent = {}
                self._loop.call_later(_RETRY, self._queue, node_pod)
            except Exception:  # noqa: BLE001 - one odd Pod must not end a writer
                _log.exception("pod_status_failed", pod=f"{node_pod.namespace}/{node_pod.name}")
            finally:
                node_pod.writing = False

    async def _write(self, node_pod: NodePod) -> None:
        path = f"/api/v1/namespaces/{node_pod.namespace}/pods/{node_pod.name}"
        while True:
            pod_state = node_pod.pod_state
            try:
                await self._write_status(node_pod, pod_state, path)
                if pod_state.removed and not node_pod.deleted:
                    await self._delete(node_pod, path)
                    return
            except (NotFound, Conflict) as problem:
                if isinstance(problem, NotFound) or "UID" in str(problem) or "uid" in str(problem):
                    return  # Another Pod has the name, or none: a watch event follows.
                raise
            if node_pod.pod_state is pod_state or node_pod.deleted:
                return

    async def _write_status(self, node_pod: NodePod, pod_state: PodState, path: str) -> None:
        address = self.registrations[node_pod.node].info.address
        status = status_of(pod_state, address, self.clock())
        for condition in status["conditions"]:
            _keep_transition(condition, node_pod.sent.get("conditions"))
        changed = {key: value for key, value in status.items() if node_pod.sent.get(key) != value}
        if not changed:
            return
        if "conditions" in changed:
            old = {c["type"]: c for c in node_pod.sent.get("conditions") or ()}
            changed["conditions"] = [c for c in status["conditions"] if old.get(c["type"]) != c]
            known = {c["type"] for c in dig(pod_state.pod, "status", "conditions") or ()} | old.keys()
            for kind in known.intersection(RESIZE_CONDITIONS) - {c["type"] for c in status["conditions"]}:
                changed["conditions"].append({"$patch": "delete", "type": kind})
        body = msgspec.json.encode({"metadata": {"uid": pod_state.uid}, "status": changed})
        await self.client.raw.request("PATCH", f"{path}/status", body=body, content_type=_STRATEGIC, timeout=10.0)
        node_pod.sent = status

    async def _delete(self, node_pod: NodePod, path: str) -> None:
        await self.runtime.removed(node_pod)
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": node_pod.uid},
        }
        with suppress(NotFound):
            await self.client.raw.request("DELETE", path, body=msgspec.json.encode(options), timeout=10.0)

    async def evict(self, namespace: str, name: str) -> None:
        """Evict the Pod with the API, as `kubectl drain` does; raises `TooManyRequests` if a budget forbids it."""
        body = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name, "namespace": namespace}}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        try:
            await self.client.raw.request("POST", path, body=msgspec.json.encode(body), timeout=10.0)
        except ApiError as problem:
            if not isinstance(problem, NotFound):
                raise


def is_echo(node_pod: NodePod, pod: Object) -> bool:
    """Return whether a new version of a Pod differs from the known one only by the last status write of its node."""
    sent, before = node_pod.sent, node_pod.pod_state.pod
    status: Object = pod.get("status") or {}
    status_before: Object = before.get("status") or {}
    written: list[Object] = sent.get("conditions") or []
    return (
        bool(sent)
        and all(status.get(key) == value for key, value in sent.items() if key != "conditions")
        and all(condition in status.get("conditions", ()) for condition in written)
        and _of_others(status, sent, written) == _of_others(status_before, sent, written)
        and pod.get("spec") == before.get("spec")
        and _own_metadata(pod) == _own_metadata(before)
    )


def _of_others(status: Object, sent: Object, written: list[Object]) -> Object:
    """Return the fields and conditions of a status that the node does not write."""
    kinds = {condition["type"] for condition in written}
    conditions = [one for one in status.get("conditions") or () if one["type"] not in kinds]
    return {key: value for key, value in status.items() if key not in sent} | {"conditions": conditions}


def _own_metadata(pod: Object) -> Object:
    return {key: value for key, value in meta(pod).items() if key not in ("resourceVersion", "managedFields")}


def _keep_transition(condition: Object, sent: list[Object] | None) -> None:
    """Keep the transition time of an unchanged condition, whether or not the watch has delivered the last write."""
    for before in sent or ():
        if before["type"] == condition["type"] and before["status"] == condition["status"]:
            condition["lastTransitionTime"] = before["lastTransitionTime"]
