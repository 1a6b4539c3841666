"""The second client on the real API server: it fills it with the stub's objects and changes them, sixteen at a time.

It goes through our transport, the quickest at hand, for every cycle that it takes is the server's: they share a core.
Nothing is retried; an answer that is not what was asked for raises BenchmarkError.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.harness import BenchmarkError
from benchmarks.peers.meter import STAMP
from benchmarks.peers.widget import Widget
from steersman.client.config import load_config
from steersman.client.transport import transport_for
from steersman.manifests import definitions
from steersman.testing import ControlPlane

IN_FLIGHT: Final = 16
_ROOTS: Final = {"widgets": "/apis/bench.steersman.dev/v1"}
_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_OWN: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
"""The fields of the metadata that the server sets."""
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

Ask = Callable[..., Awaitable[Any]]
"""`await ask(method, path, body, media)`: the decoded answer."""


@dataclass(frozen=True, slots=True)
class Known:
    """An object that was created."""

    namespace: str
    name: str

    def path(self, kind: str) -> str:
        """Return the URL path of the object."""
        return f"{_ROOTS.get(kind, '/api/v1')}/namespaces/{self.namespace}/{kind}/{self.name}"


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def define(server: ControlPlane) -> None:
    """Make the server serve Widgets, by the CRD that Steersman derives from the class."""
    server.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definitions([Widget])[0])
    deadline = time.monotonic() + 30
    with server.session() as session:
        while not session.ready(f"{_ROOTS['widgets']}/widgets"):
            if time.monotonic() > deadline:
                raise BenchmarkError("the API server does not serve Widgets 30 s after their definition")
            time.sleep(0.05)


@asynccontextmanager
async def asking(kubeconfig: Path) -> AsyncIterator[Ask]:
    """A client that has no opinions."""
    config = load_config(str(kubeconfig))
    transport = transport_for(config)

    async def ask(method: str, path: str, body: object = None, media: str = _JSON) -> Any:
        headers = (*(await config.auth.headers()).items(), ("Accept", _JSON), ("Content-Type", media))
        sent = None if body is None else _encode(body)
        answer = await transport.request(method, path, headers=headers, body=sent, timeout=60)
        if not 200 <= answer.status < 300:
            raise BenchmarkError(f"{method} {path} was answered with {answer.status}: {answer.body[:300]!r}")
        return _decode(answer.body)

    try:
        yield ask
    finally:
        await transport.close()


async def copy(source: Path, target: Path, kind: str) -> list[Known]:
    """Create what the source holds, statuses included; they tell of the generation that the target gives."""
    root = _ROOTS.get(kind, "/api/v1")
    async with asking(source) as ask:
        objects = (await ask("GET", f"{root}/{kind}"))["items"]
    async with asking(target) as ask:
        for namespace in sorted({obj["metadata"]["namespace"] for obj in objects}):
            await ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})

        async def create(obj: dict[str, Any]) -> None:
            metadata, status = obj["metadata"], obj.pop("status", None)
            for name in _OWN:
                metadata.pop(name, None)
            if kind == "pods":
                _mend(obj["spec"])
            made = await ask("POST", f"{root}/namespaces/{metadata['namespace']}/{kind}", obj)
            if status is not None:
                status["observedGeneration"] = made["metadata"].get("generation", 0)
                status.pop("qosClass", None)  # the server has set it for good
                await ask("PATCH", f"{_of(metadata).path(kind)}/status", {"status": status}, _MERGE)

        await _in_flight(create, objects)
    return [_of(obj["metadata"]) for obj in objects]


def _mend(spec: dict[str, Any]) -> None:
    """A Pod's spec so that it agrees with itself, which the stub does not ask of it."""
    for container in spec["containers"]:
        container["resources"]["requests"] = container["resources"]["limits"]
        for mount, volume in zip(container["volumeMounts"], spec["volumes"], strict=True):
            mount["name"] = volume["name"]


async def touch(
    target: Path, kind: str, objects: list[Known], count: int, rate: float, answered: dict[str, int]
) -> None:
    """Change `count` objects in turn, each stamped with the time; `rate` a second, 0 as fast as they are served.

    `answered` gets the time of the response (ns) by the stamp.
    """
    began = time.monotonic()
    async with asking(target) as ask:

        async def write(number: int) -> None:
            if rate:
                await asyncio.sleep(began + number / rate - time.monotonic())
            stamp = str(time.time_ns())
            patch: dict[str, Any] = {"metadata": {"annotations": {STAMP: stamp}}}
            if kind == "widgets":
                patch["spec"] = {"schedule": f"{number % 60} {time.time_ns() % 24} * * {began:.0f}"}
            await ask("PATCH", objects[number % len(objects)].path(kind), patch, _MERGE)
            answered[stamp] = time.time_ns()

        await _in_flight(write, range(count))


async def settle(target: Path, kind: str) -> int:
    """Let each status tell of its object's generation; returns how many did not."""
    root = _ROOTS.get(kind, "/api/v1")
    async with asking(target) as ask:
        items = (await ask("GET", f"{root}/{kind}"))["items"]
        late = [
            obj for obj in items
            if "status" in obj and obj["status"].get("observedGeneration") != obj["metadata"].get("generation")
        ]  # fmt: skip

        async def write(obj: dict[str, Any]) -> None:
            status = {"observedGeneration": obj["metadata"].get("generation", 0)}
            await ask("PATCH", f"{_of(obj['metadata']).path(kind)}/status", {"status": status}, _MERGE)

        await _in_flight(write, late)
    return len(late)


def _of(metadata: dict[str, Any]) -> Known:
    return Known(metadata["namespace"], metadata["name"])


async def _in_flight(work: Callable[[Any], Awaitable[None]], items: Iterable[Any]) -> None:
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(worker())
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
