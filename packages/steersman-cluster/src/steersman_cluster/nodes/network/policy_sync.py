"""Updates the router when NetworkPolicies change. Pods and namespaces are watched if a policy exists."""

from __future__ import annotations

import asyncio

import msgspec

from steersman.cache import Cache, Change
from steersman.client import Client
from steersman.k8s import Namespace, Pod
from steersman.k8s.networking_v1 import NetworkPolicy
from steersman.telemetry.log import get_logger
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork, NetworkError
from steersman_cluster.nodes.network.policies import PolicyStore, allowed_of
from steersman_cluster.objects import labels_of

__all__ = ["PolicySync"]

_log = get_logger("network")
_SYNC_SECONDS = 30.0


class PolicySync:
    """Watches NetworkPolicies with the client of the nodes, from `start` to `close`."""

    def __init__(self, client: Client, network: ClusterNetwork) -> None:
        self.store = PolicyStore()
        self._network = network
        self._policies = Cache(client)
        self._policies.informer(NetworkPolicy).add_handler(self._policy_changed)
        self._rest = Cache(client)
        self._rest.informer(Pod).add_handler(self._pod_changed)
        self._rest.informer(Namespace).add_handler(self._namespace_changed)
        self._watching: asyncio.Task[None] | None = None
        self._scheduled = False

    async def start(self) -> None:
        """Watch policies; returns when the existing ones are enforced. Raises the errors of the client."""
        await self._policies.start()
        await self._policies.wait_synced(_SYNC_SECONDS)
        if self._watching is not None:
            await self._watching

    async def close(self) -> None:
        """Stop watching. Safe to call twice."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await self._policies.close()
        await self._rest.close()

    def _policy_changed(self, change: Change) -> None:
        key = (change.key.namespace, change.key.name)
        if change.new is None:
            self.store.policies.pop(key, None)
        else:
            self.store.policies[key] = msgspec.json.decode(change.new.raw())
            if self._watching is None:
                self._watching = asyncio.create_task(self._watch_rest(), name="network policies")
        self._schedule()

    async def _watch_rest(self) -> None:
        await self._rest.start()
        await self._rest.wait_synced(_SYNC_SECONDS)
        self._schedule()

    def _pod_changed(self, change: Change) -> None:
        key = (change.key.namespace, change.key.name)
        if change.new is None:
            self.store.pods.pop(key, None)
        else:
            self.store.pods[key] = msgspec.json.decode(change.new.raw())
        self._schedule()

    def _namespace_changed(self, change: Change) -> None:
        if change.new is None:
            self.store.namespaces.pop(change.key.name, None)
        else:
            self.store.namespaces[change.key.name] = labels_of(msgspec.json.decode(change.new.raw()))
        self._schedule()

    def _schedule(self) -> None:
        """Send the rules to the router after all changes of this iteration of the event loop."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        try:
            self._network.set_policies(allowed_of(self.store))
        except NetworkError as problem:
            _log.warning("network_policies_not_set", problem=str(problem))
