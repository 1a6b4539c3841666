"""The verbs of kubectl as API calls: apply, get, list, patch, delete, scale, wait.

A base class of every `Cluster`; it needs only a kubeconfig. Kinds have the names that kubectl accepts (`deployment`,
`deployments.apps`, `Deployment`, `deploy`), from discovery. Calls block; each cluster has one thread for its
connections, so that they also work while the caller's event loop is blocked.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from steersman.models import ALL_NAMESPACES
from steersman.testing.cluster_http import CallError
from steersman.testing.faults import USER_AGENT
from steersman.testing.waiting import eventually

if TYPE_CHECKING:
    from steersman.client import Client
    from steersman.client.config import Config
    from steersman.manifest_files import Manifest

__all__ = ["Objects", "ServedKind", "manifests_of"]

T = TypeVar("T")
Object = dict[str, Any]
Found = list[Object]

_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_PATCHES: Final = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind in the discovery document."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the path of an object, or of the collection."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(filter(None, (f"{root}{place}/{self.plural}", name, subresource)))

    def called(self, word: str) -> bool:
        """Return whether `word` (in lower case, without group) names this kind."""
        return word in (self.plural, self.singular, self.kind.lower()) or word in self.short_names


class Objects:
    """The objects of a cluster, read and written as its administrator. `namespace` is the default namespace."""

    namespace: str = "default"

    def __init__(self) -> None:
        self._caller: _Thread | None = None
        self._served: list[ServedKind] = []

    @property
    def config(self) -> Config:
        """The administrator's configuration, for `steersman.client.Client`."""
        raise NotImplementedError

    def client(self, **options: Any) -> Client:
        """Return a new asynchronous client as the administrator: `async with cluster.client() as client: …`."""
        from steersman.client import Client

        words: dict[str, Any] = {"user_agent": USER_AGENT, **options}
        return Client(self.config, **words)

    def apply(
        self,
        *what: Path | str | Mapping[str, Any],
        namespace: str | None = None,
        field_manager: str = USER_AGENT,
        force: bool = True,
    ) -> Found:
        """Apply files, directories, YAML or JSON text, or objects with server-side apply; returns the results in order.

        Namespaces and CRDs are applied first, and the call waits for CRDs. A `str` of one line is a path if such a file
        exists, and text otherwise.

        Raises:
            CallError: The server refused an object.
            ManifestError: The input is not readable.
        """
        manifests = [manifest for one in what for manifest in manifests_of(one)]
        place = namespace or self.namespace

        async def go(client: Client) -> list[Object]:
            from steersman.manifest_files.apply import load

            found: dict[int, Object] = {}
            async for outcome in load(client, manifests, namespace=place, field_manager=field_manager, force=force):
                if outcome.action == "failed":
                    raise CallError(f"apply {outcome.reference} ({outcome.manifest.source})", 0, outcome.error.encode())
                manifest = outcome.manifest
                kind = await self._find(client, manifest.kind, _group_version(manifest.api_version))
                answer = await client.raw.request("GET", kind.path(outcome.namespace, outcome.name))
                found[id(manifest)] = json.loads(answer.body)
            return [found[id(manifest)] for manifest in manifests]

        return self._do(go, "apply", timeout=60.0)

    def get(self, kind: str, name: str, *, namespace: str | None = None) -> Object | None:
        """Return an object, or None if it does not exist. Raises `CallError` for a kind that is not served."""
        return self._verb("GET", kind, name, namespace, missing=True)

    def list(self, kind: str, *, namespace: str | None = None, labels: str = "") -> Found:
        """Return the objects of a kind in a namespace (or in `ALL_NAMESPACES`) that match a label selector."""

        async def go(client: Client) -> list[Object]:
            served = await self._find(client, kind)
            path = served.path("" if namespace == ALL_NAMESPACES else namespace or self.namespace)
            answer = await client.raw.request("GET", path, query=(("labelSelector", labels),) if labels else ())
            found: dict[str, Any] = json.loads(answer.body)
            version = f"{served.group}/{served.version}".strip("/")
            return [{"apiVersion": version, "kind": served.kind, **item} for item in found["items"] or ()]

        return self._do(go, f"list {kind}")

    def patch(
        self,
        kind: str,
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        namespace: str | None = None,
        subresource: str = "",
        type: Literal["merge", "json", "strategic", "apply"] = "merge",
    ) -> Object:
        """Patch an object or its subresource; returns the result."""
        query = (
            (("fieldManager", USER_AGENT), ("force", "true")) if type == "apply" else (("fieldManager", USER_AGENT),)
        )
        return cast(
            Object,
            self._verb(
                "PATCH", kind, name, namespace, subresource, body=body, content_type=_PATCHES[type], query=query
            ),
        )

    def scale(self, kind: str, name: str, replicas: int, *, namespace: str | None = None) -> Object:
        """Set the replicas with the scale subresource, as `kubectl scale` does; returns the Scale."""
        return self.patch(kind, name, {"spec": {"replicas": replicas}}, namespace=namespace, subresource="scale")

    def delete(
        self,
        kind: str,
        name: str,
        *,
        namespace: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        wait: bool = False,
        within: float = 30.0,
    ) -> None:
        """Delete an object, if it exists. With `wait` the call waits for its removal, for `within` seconds."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        self._verb("DELETE", kind, name, namespace, body=body, missing=True)
        if wait:
            self.wait(kind, name, "deleted", namespace=namespace, within=within)

    def wait(
        self,
        kind: str,
        name: str,
        condition: str | Callable[[Object], object] = "Ready",
        *,
        namespace: str | None = None,
        within: float = 30.0,
    ) -> Object:
        """Wait until an object meets a condition, and return it (empty after deletion).

        `condition` is a condition's type (`"Available"`, `"Ready=False"`), `"created"`, `"deleted"`, or a predicate of
        the object. Raises `AssertionError` with the last state of the object.
        """

        def reached() -> Object | None:
            found = self.get(kind, name, namespace=namespace)
            if condition == "deleted":
                return {} if found is None else None
            return found if found is not None and _is(found, condition) else None

        wanted = condition if isinstance(condition, str) else getattr(condition, "__name__", "as wanted")
        return (
            eventually(
                lambda: (reached(),),
                within=within,
                what=f"{kind} {name} is {wanted}",
                until=lambda found: found[0] is not None,
                shown=lambda: self.get(kind, name, namespace=namespace),
            )[0]
            or {}
        )

    def kind(self, word: str) -> ServedKind:
        """Return the resource that kubectl would use for `word`. Raises `CallError` if there is none."""

        async def go(client: Client) -> ServedKind:
            return await self._find(client, word)

        return self._do(go, word)

    # Helpers.

    def _verb(
        self,
        method: str,
        kind: str,
        name: str,
        namespace: str | None,
        subresource: str = "",
        *,
        body: Any = None,
        content_type: str = "application/json",
        query: Sequence[tuple[str, str]] = (),
        missing: bool = False,
    ) -> Object | None:
        async def go(client: Client) -> Object | None:
            from steersman.client import NotFound

            path = (await self._find(client, kind)).path(namespace or self.namespace, name, subresource)
            sent = None if body is None else json.dumps(body).encode()
            try:
                answer = await client.raw.request(method, path, query=query, body=sent, content_type=content_type)
            except NotFound:
                if missing:
                    return None
                raise
            return json.loads(answer.body)

        return self._do(go, f"{method} {kind} {name}")

    async def _find(self, client: Client, word: str, within: tuple[str, str] | None = None) -> ServedKind:
        found = _named(self._served, word, within)
        if found is None:
            self._served = await _discover(client)
            found = _named(self._served, word, within)
        if found is None:
            raise CallError(word, 404, f"the server doesn't have a resource type {word!r}".encode())
        return found

    def _do(self, act: Callable[[Client], Awaitable[T]], what: str, timeout: float = 30.0) -> T:
        from steersman.client.errors import ApiError, ClientError

        if self._caller is None:
            self._caller = _Thread(self.client)
        try:
            return self._caller.do(act, timeout)
        except ApiError as problem:
            raise CallError(what, problem.code, problem.status.message.encode()) from problem
        except ClientError as problem:
            raise CallError(what, 0, str(problem).encode()) from problem

    def _hang_up(self) -> None:
        """Close the connections and end the thread."""
        if self._caller is not None:
            self._caller.close()
            self._caller = None


class _Thread:
    """An event loop in a thread, with one client."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster-objects", daemon=True)
        self._thread.start()
        self._client: Client | None = None
        self._connect = connect

    def do(self, act: Callable[[Client], Awaitable[T]], timeout: float) -> T:
        async def go() -> T:
            if self._client is None:
                self._client = self._connect()
            return await act(self._client)

        return asyncio.run_coroutine_threadsafe(go(), self._loop).result(timeout)

    def close(self) -> None:
        async def go() -> None:
            if self._client is not None:
                await self._client.close()

        asyncio.run_coroutine_threadsafe(go(), self._loop).result(10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()


def manifests_of(what: Path | str | Mapping[str, Any]) -> list[Manifest]:
    """Return the manifests of a file, a directory, a text or a mapping.

    Raises:
        ManifestError: The content is not a manifest.
    """
    from steersman.manifest_files import Manifest, parse, read

    if isinstance(what, Mapping):
        return [Manifest("the test", json.loads(json.dumps(what)))]
    if isinstance(what, Path) or ("\n" not in what and Path(what).exists()):
        found, problems = read([what])
        if problems:
            raise problems[0]
        return found
    return parse(what, "the test's text")


def _group_version(api_version: str) -> tuple[str, str]:
    group, slash, version = api_version.partition("/")
    return (group, version) if slash else ("", group)


def _is(obj: Object, condition: str | Callable[[Object], object]) -> bool:
    if callable(condition):
        return bool(condition(obj))
    if condition == "created":
        return True
    kind, _, value = condition.removeprefix("condition=").partition("=")
    status: Object = obj.get("status") or {}
    found: Found = status.get("conditions") or []
    generation: int = obj["metadata"].get("generation", 0)
    # A condition of an earlier generation does not count, as in `kubectl wait`.
    seen = [c for c in found if c.get("observedGeneration", status.get("observedGeneration", generation)) >= generation]
    value = (value or "True").lower()
    return any(str(c["type"]).lower() == kind.lower() and str(c["status"]).lower() == value for c in seen)


def _named(served: Sequence[ServedKind], word: str, within: tuple[str, str] | None) -> ServedKind | None:
    """Return the resource of `deploy`, `deployments.apps` or `deployments.v1.apps`; the order of discovery decides."""
    if within is not None:
        return next((k for k in served if (k.group, k.version) == within and k.kind == word), None)
    name, _, rest = word.lower().partition(".")
    for kind in served:
        if kind.called(name) and rest in ("", kind.group, f"{kind.version}.{kind.group}".rstrip(".")):
            return kind
    return None


async def _discover(client: Client) -> list[ServedKind]:
    found: list[ServedKind] = []
    for root in ("/api", "/apis"):
        answer = await client.raw.request("GET", root, accept=_DISCOVERY)
        for group in json.loads(answer.body)["items"]:
            for version in group.get("versions") or ():
                found += (
                    ServedKind(
                        group["metadata"].get("name", ""),
                        version["version"],
                        r["resource"],
                        r.get("singularResource") or r["responseKind"]["kind"].lower(),
                        r["responseKind"]["kind"],
                        r["scope"] == "Namespaced",
                        tuple(r.get("shortNames") or ()),
                    )
                    for r in version.get("resources") or ()
                )
    return found
