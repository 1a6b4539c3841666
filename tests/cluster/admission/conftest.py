"""A store in memory, writes made of little, and a webhook server on the loopback."""

import base64
import copy
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import pytest
from aiohttp import web

from steersman.pki import Authority, KeyPair
from steersman_cluster.admission import Admission, Write
from steersman_cluster.strategy import User, WriteContext

Object = dict[str, Any]
JANE = User("jane", groups=("system:authenticated",))


class Store:
    """Objects by group, resource, namespace and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str, str], Object] = {}
        self.admission: Admission | None = None
        self.put("", "namespaces", {"metadata": {"name": "default", "labels": {"team": "a"}}})

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        return copy.deepcopy(self.objects.get((group, resource, namespace, name)))

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Object]:
        return [
            copy.deepcopy(item)
            for key, item in self.objects.items()
            if key[:2] == (group, resource) and (not namespace or key[2] == namespace)
        ]

    def put(self, group: str, resource: str, obj: Object) -> None:
        metadata = obj["metadata"]
        key = (group, resource, metadata.get("namespace", ""), metadata["name"])
        self.objects[key] = obj
        if self.admission is not None:
            self.admission.changed(*key)

    def delete(self, group: str, resource: str, namespace: str, name: str) -> None:
        del self.objects[group, resource, namespace, name]
        assert self.admission is not None
        self.admission.changed(group, resource, namespace, name)

    def write(self, obj: Object | None, *, operation: str = "CREATE", old: Object | None = None, **more: Any) -> Write:
        """A write of a ConfigMap in `default`, or of what `more` says."""
        shown = obj or old or {}
        fields: Object = {
            "group": "",
            "version": "v1",
            "kind": "ConfigMap",
            "resource": "configmaps",
            "namespace": "default",
            "name": "" if operation == "CREATE" else shown["metadata"]["name"],
            "user": JANE,
            "context": WriteContext(JANE, "2026-01-01T00:00:00Z", self, lambda length: "x" * length),
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        }
        return Write(operation=operation, obj=obj, old=old, **{**fields, **more})

    def pod(self, spec: Object | None = None, **more: Any) -> Write:
        obj = {
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "a", "image": "i"}], **(spec or {})},
        }
        return self.write(obj, kind="Pod", resource="pods", **more)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def admission(store: Store) -> AsyncIterator[Admission]:
    chain = Admission(store)
    store.admission = chain
    yield chain
    await chain.close()


Answerer = Callable[[Object], Awaitable[Any] | Any]


class HookServer:
    """Webhooks on the loopback: `answers[path]` makes the response to a request, or a whole `web.Response`."""

    def __init__(self) -> None:
        self.authority = Authority.create("hooks")
        self.own: KeyPair | None = None
        self.answers: dict[str, Answerer] = {}
        self.asked: list[tuple[str, Object]] = []
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def start(self, hosts: Iterable[str] = ("localhost", "127.0.0.1", "hook.default.svc")) -> None:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        self.own = self.authority.serving("webhook", hosts)
        context = server_context(self.own)
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        review = await request.json()
        path = request.path.strip("/")
        self.asked.append((path, review["request"]))
        answer = self.answers[path](review["request"])
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return web.json_response({**body, "response": {"uid": review["request"]["uid"], **answer}})

    def config(self, path: str) -> Object:
        bundle = base64.b64encode(self.authority.cert_pem).decode()
        return {"url": f"https://127.0.0.1:{self.port}/{path}", "caBundle": bundle}

    def hook(self, path: str, **more: Any) -> Object:
        """A webhook for ConfigMaps."""
        return {
            "name": f"{path}.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": self.config(path),
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "timeoutSeconds": 5,
            **more,
        }

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


def server_context(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.cert_pem + pair.key_pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def patch(*operations: Object) -> Object:
    return {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(operations).encode()).decode(),
    }


def register(store: Store, kind: str, name: str, *hooks: Object) -> None:
    store.put(
        "admissionregistration.k8s.io",
        f"{kind}webhookconfigurations",
        {"metadata": {"name": name}, "webhooks": list(hooks)},
    )


@pytest.fixture
async def hooks() -> AsyncIterator[HookServer]:
    server = HookServer()
    await server.start()
    yield server
    await server.stop()
