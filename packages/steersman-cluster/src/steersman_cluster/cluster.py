"""A whole cluster in this process: API server, controllers, nodes; started and stopped as one.

    async with DevCluster.start() as cluster:
        async with cluster.client() as client:
            await client.create(...)

The API listens on loopback only and uses TLS only. The kubeconfig contains the credentials of the administrator.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import ssl
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from steersman.client import Client
from steersman.client.config import Config
from steersman.pki import Authority, KeyPair, as_file
from steersman.telemetry.log import get_logger
from steersman_cluster.api.inprocess import InProcessTransport
from steersman_cluster.api.server import APIServer
from steersman_cluster.auth import SERVING_HOSTS, SigningKey, kubeconfig, write_kubeconfig
from steersman_cluster.auth.audit import Log
from steersman_cluster.auth.audit_policy import Policy
from steersman_cluster.detached import image_directory
from steersman_cluster.storage import Database, Storage
from steersman_cluster.strategy import User

if TYPE_CHECKING:
    from steersman_cluster.api.http import HTTPSServer
    from steersman_cluster.kubelet import Kubelet
    from steersman_cluster.nodes import Nodes
    from steersman_cluster.nodes.network.cluster_network import ClusterNetwork

__all__ = ["ADMIN", "DevCluster", "NetworkMode", "Options", "serving_context"]

_log = get_logger("cluster")
ADMIN: Final = User("kubernetes-admin", groups=("system:masters", "system:authenticated"))
_CONTROLLERS: Final = User("system:kube-controller-manager", groups=("system:masters", "system:authenticated"))
_NODES: Final = User("system:node:embedded", groups=("system:masters", "system:nodes", "system:authenticated"))
_FRONT_PROXY: Final = "front-proxy-ca"

NetworkMode = Literal["auto", "namespaces", "loopback"]


@dataclass(frozen=True, slots=True)
class Options:
    """The configuration of a cluster: nodes, ports, storage, admission, clock, randomness."""

    data: Path | None = None
    """A directory to keep the cluster in; in memory without one."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    listen: bool = True
    """False: in-process clients only, no socket."""
    controllers: bool = True
    nodes: int = 1
    node_kind: str = "simulated"
    images: Path | None = None
    """The file that maps images of process nodes to commands."""
    image_store: Path | None = None
    """A directory of imported images, which process nodes search before the user's (`steersman cluster image`)."""
    network: NetworkMode = "auto"
    """Of process nodes: `namespaces` gives each Pod a network of its own, `loopback` shares this machine's, and `auto`
    takes `namespaces` where the kernel allows it."""
    ready_after: float | None = None
    """Seconds that a simulated Pod takes to become Ready; None leaves the default."""
    kubeconfig: Path | None = None
    """The path of the administrator's kubeconfig; a temporary file by default."""
    audit: Policy | None = None
    audit_path: Path | None = None
    metrics: bool = True
    """Whether the nodes' usage is served as metrics.k8s.io, as by a metrics server."""
    capacity: dict[str, str] | None = None


class DevCluster:
    """A running cluster. Belongs to the event loop that started it."""

    def __init__(
        self, options: Options, *, now: Callable[[], float] = time.time, rng: random.Random | None = None
    ) -> None:
        self.options = options
        self._now = now
        self._rng = rng
        self._database = Database(options.data / "cluster.db") if options.data is not None else None
        authority, key = _identity(self._database)
        self.authority = authority
        self._front_proxy = _front_proxy(self._database)
        self.audit = (
            Log(options.audit, path=options.audit_path, now=now)
            if options.audit is not None or options.audit_path is not None
            else None
        )
        self.server = APIServer(
            Storage(self._database, now=now),
            authority=authority,
            key=key,
            now=now,
            rng=rng,
            aggregated=options.controllers,
            service_accounts=options.controllers,
            audit=self.audit,
        )
        self.kubeconfig = options.kubeconfig or Path(tempfile.mkdtemp(prefix="steersman-"), "kubeconfig")
        """The administrator's kubeconfig, mode 0600; written when the cluster listens."""
        self.nodes: Nodes | None = None
        self.network: ClusterNetwork | None = None
        """The network of the Pods, where they have one of their own."""
        self._node_data = _node_data(options)
        self._node_client: Client | None = None
        self._added: list[Nodes] = []
        self._front: HTTPSServer | None = None
        self._kubelet_fronts: list[HTTPSServer] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()
        self.port = 0

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        options: Options | None = None,
        *,
        now: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> AsyncGenerator[DevCluster]:
        """A cluster for the time of a block. Raises `OSError` for a port that is taken, `DataError` for bad data."""
        cluster = cls(options or Options(), now=now, rng=rng)
        try:
            await cluster.open()
            yield cluster
        finally:
            await cluster.close()

    async def open(self) -> None:
        """Listen, and start controllers and nodes; returns when all are there."""
        options = self.options
        if options.nodes and options.node_kind == "process" and options.network != "loopback":
            await self._start_network()
        if options.listen:
            await self.listen(options.port)
        if options.controllers:
            self._tasks.append(asyncio.create_task(self._control(), name="controllers"))
        if options.nodes:
            await self._start_nodes()

    async def listen(self, port: int = 0) -> None:
        """Listen for connections; after `unlisten` on the same port again."""
        from steersman_cluster.api.http import HTTPSServer

        self._front = HTTPSServer(self.server, serving_context(self.authority))
        self.port = await self._front.start(self.options.host, port)
        self.server.address = self.url
        if self.network is not None:
            from steersman_cluster.nodes.network.addresses import API_ADDRESS, API_PORT

            self._front.listen_on(self.network.listener("tcp", API_ADDRESS, API_PORT))
            self.server.kubernetes.publish(API_ADDRESS, API_PORT)
            # Pods verify the tokens of other Pods, and reach neither loopback nor the host's addresses.
            self.server.key_set_address = self.server.auth.tokens.issuer
        else:
            self.server.kubernetes.publish(self.options.host, self.port)
        self.server.aggregation.publish(self.authority, self._front_proxy)
        credential = self.authority.client(ADMIN.name, ("system:masters",))
        write_kubeconfig(self.kubeconfig, kubeconfig(self.url, self.authority.cert_pem, credential, user=ADMIN.name))

    async def unlisten(self) -> None:
        """Stop listening and close all connections, as if the API server had died; everything else keeps running."""
        if self._front is not None:
            await self._front.close()
            self._front = None

    async def close(self) -> None:
        """Stop everything in reverse order of dependency; safe to call twice."""
        await self._close_nodes()
        self._stop.set()
        for task in self._tasks:
            with suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(task, 10)
        self._tasks.clear()
        await self.unlisten()
        await self.server.close()
        if self.network is not None:
            await self.network.close()
            self.network = None
        if self.audit is not None:
            self.audit.close()
        if self._database is not None:
            self._database.close()
            self._database = None
        if self.options.kubeconfig is None:
            shutil.rmtree(self.kubeconfig.parent, ignore_errors=True)

    async def _close_nodes(self) -> None:
        while self._kubelet_fronts:
            await self._kubelet_fronts.pop().close()
        if self.nodes is not None:
            await self.nodes.close()
            self.nodes = None
        while self._added:
            await self._added.pop().close()
        if self._node_client is not None:
            await self._node_client.close()
            self._node_client = None
        if self._node_data is not None and self.options.data is None:
            await asyncio.to_thread(shutil.rmtree, self._node_data, ignore_errors=True)

    @property
    def listening(self) -> bool:
        """Return whether the API server listens."""
        return self._front is not None

    async def add_node(
        self, name: str, *, capacity: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
    ) -> None:
        """One more simulated node, Ready when this returns."""
        from steersman_cluster import nodes

        if self._node_client is None:
            self._node_client = self.client(_NODES, field_manager="kubelet")
        added = await nodes.start(
            self._node_client,
            "simulated",
            names=(name,),
            capacity=capacity,
            labels=labels,
            defaults=self._defaults(),
            now=self._utc,
        )
        self._added.append(added)
        for node, kubelet in added.kubelets.items():
            self._register(node, kubelet)

    # For users.

    @property
    def url(self) -> str:
        """The API server's address."""
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"https://{host}:{self.port}"

    @property
    def config(self) -> Config:
        """A configuration for `client`; its address is only a name, since no socket is used."""
        return Config.for_url("http://embedded.invalid")

    def client(self, user: User = ADMIN, **options: Any) -> Client:
        """A client in this process, without a socket, as any user; `options` are the Client's own."""
        return Client(self.config, transport=InProcessTransport(self.server, user), **options)

    # Parts.

    async def _control(self) -> None:
        from steersman_cluster import controllers

        await controllers.run(
            self.config,
            transport=lambda _config: InProcessTransport(self.server, _CONTROLLERS, drop_warnings=True),
            stop=self._stop,
            now=self._utc,
            rng=self._rng,
            options={
                "serviceaccount": {
                    "ca_bundle": self.authority.cert_pem.decode(),
                    "sign": self.server.auth.tokens.legacy,
                },
                "volumes": {"directory": self._node_data and self._node_data / "volumes"},
            },
        )

    async def _start_network(self) -> None:
        """Start the network of process nodes; with `auto`, log the reason if the kernel does not allow it."""
        from steersman_cluster.nodes.network.cluster_network import NetworkError
        from steersman_cluster.nodes.network.detection import start_network

        try:
            self.network = await start_network()
        except NetworkError as problem:
            if self.options.network == "namespaces":
                raise
            _log.info("network_namespaces_unavailable", problem=str(problem))
        else:
            self.server.admission.caller.socket_factory = self.network.socket_for

    async def _start_nodes(self) -> None:
        from steersman_cluster import nodes

        options = self.options
        self._node_client = self.client(_NODES, field_manager="kubelet")
        self.nodes = await nodes.start(
            self._node_client,
            options.node_kind,  # type: ignore[arg-type]
            options.nodes,
            now=self._utc,
            images=options.images,
            stores=[*([options.image_store] if options.image_store is not None else []), image_directory()],
            data=self._node_data,
            keep=options.data is not None,
            server=(options.host, self.port) if self.port else None,
            capacity=options.capacity,
            defaults=self._defaults(),
            network=self.network,
        )
        for name, kubelet in self.nodes.kubelets.items():
            self._register(name, kubelet)
        if options.node_kind == "process":
            if options.listen:
                await self._serve_kubelets(self.nodes)
            from steersman_cluster.nodes.fault_endpoint import FaultEndpoint

            self.server.extensions["faults"] = FaultEndpoint.of(self.nodes.agent, self.network).answer

    async def _serve_kubelets(self, nodes: Nodes) -> None:
        """Serve the HTTPS API of each kubelet: in the network of the Pods, else on a free port of this machine."""
        from steersman_cluster.api.connect.kubelet_server import KubeletServer
        from steersman_cluster.api.http import HTTPSServer

        for name, registration in nodes.agent.registrations.items():
            info = registration.info
            context = serving_context(self.authority, f"system:node:{name}", (name, info.address))
            front = HTTPSServer(KubeletServer(self.server, name), context)
            self._kubelet_fronts.append(front)
            if self.network is not None:
                front.listen_on(self.network.listener("tcp", info.address, info.kubelet_port, within=info.address))
            else:
                registration.info = replace(info, kubelet_port=await front.start(info.address, 0))
                await registration.report()

    def _register(self, node: str, kubelet: Kubelet) -> None:
        self.server.kubelets.register(node, kubelet)
        if self.options.metrics:
            self.server.metrics.serve()

    def _defaults(self) -> Any:
        from steersman_cluster import nodes

        after = self.options.ready_after
        return None if after is None else nodes.Defaults(ready_after=after)

    def _utc(self) -> datetime:
        return datetime.fromtimestamp(self._now(), UTC)


def _identity(database: Database | None) -> tuple[Authority, SigningKey]:
    """The cluster's authority and the key of its tokens; kept with its data, so that credentials outlive a restart."""
    if database is None:
        return Authority.create(), SigningKey()
    cert, secret, token = (database.fact(name) for name in ("ca.crt", "ca.key", "tokens.key"))
    if cert is not None and secret is not None and token is not None:
        return Authority.load(KeyPair(cert, secret)), SigningKey.load(token)
    authority, key = Authority.create(), SigningKey()
    database.remember("ca.crt", authority.pair.cert_pem)
    database.remember("ca.key", authority.pair.key_pem)
    database.remember("tokens.key", key.pem)
    return authority, key


def _front_proxy(database: Database | None) -> Authority:
    """The authority of the certificate that aggregated servers trust to name users; apart from that of clients."""
    if database is None:
        return Authority.create(_FRONT_PROXY)
    cert, secret = database.fact("front-proxy-ca.crt"), database.fact("front-proxy-ca.key")
    if cert is not None and secret is not None:
        return Authority.load(KeyPair(cert, secret))
    authority = Authority.create(_FRONT_PROXY)
    database.remember("front-proxy-ca.crt", authority.pair.cert_pem)
    database.remember("front-proxy-ca.key", authority.pair.key_pem)
    return authority


def _node_data(options: Options) -> Path | None:
    """The directory of the Pods, logs and volumes of process nodes: temporary, unless the cluster's data is kept."""
    if not options.nodes or options.node_kind != "process":
        return None
    if options.data is not None:
        return options.data.absolute() / "nodes"
    return Path(tempfile.mkdtemp(prefix="steersman-node-"))


def serving_context(
    authority: Authority, name: str = "kube-apiserver", hosts: Iterable[str] = SERVING_HOSTS
) -> ssl.SSLContext:
    """Return the TLS settings of the API server or a kubelet, which verifies client certificates of the authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.cert_pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    pair = authority.serving(name, hosts)
    with as_file(pair.key_pem + pair.cert_pem) as path:
        context.load_cert_chain(path)
    return context
