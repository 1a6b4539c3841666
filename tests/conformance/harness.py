"""One request, two servers, one answer: how the embedded API server is held to the real kube-apiserver.

`Both.same` sends a request to both, takes out of the answers what must differ (uids, times, versions, generated
names), and requires that code, body and warnings are equal. Intended differences are listed in
docs/conformance.md and is named by the case with `ignore`, never by the harness.
"""

import asyncio
import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"\d+s")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Answer:
    """The response of a server."""

    code: int
    body: Any
    warnings: tuple[str, ...] = ()
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


class Server:
    """One API server, spoken to as its administrator."""

    def __init__(self, name: str, url: str, session: aiohttp.ClientSession) -> None:
        self.name = name
        self.url = url
        self.session = session

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; `body` is JSON, or bytes or text as they are."""
        data = body if body is None or isinstance(body, bytes | str) else json.dumps(body)
        sent = {"Accept": JSON, "User-Agent": "conformance/1.0", **(headers or {})}
        if data is not None:
            sent.setdefault("Content-Type", content_type)
        async with self.session.request(method, self.url + path, data=data, headers=sent) as answer:
            content = await answer.read()
            kind = answer.content_type
            decoded: Any = content.decode(errors="replace")
            if kind == JSON or kind.endswith("+json"):
                with suppress(ValueError):
                    decoded = json.loads(content)
            return Answer(
                answer.status, decoded, tuple(answer.headers.getall("Warning", ())), kind, dict(answer.headers)
            )

    async def watch(self, path: str, count: int, *, timeout: float = 10.0) -> list[dict[str, Any]]:
        """The first `count` events of a watch; fewer when the server ends it."""
        events: list[dict[str, Any]] = []
        async with asyncio.timeout(timeout), self.session.get(self.url + path, headers={"Accept": JSON}) as answer:
            if answer.status != 200:
                return [{"type": "REFUSED", "object": json.loads(await answer.read())}]
            async for line in answer.content:
                events.append(json.loads(line))
                if len(events) == count:
                    break
        return events


class Both:
    """The embedded and the real server, side by side, with one namespace of the same name on each."""

    def __init__(self, embedded: Server, real: Server, namespace: str) -> None:
        self.embedded = embedded
        self.real = real
        self.namespace = namespace

    @property
    def servers(self) -> tuple[Server, Server]:
        return self.embedded, self.real

    async def same(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        ignore: Sequence[str] = (),
    ) -> Answer:
        """Demand the same answer of both; returns the embedded server's, as it came.

        `{ns}` in path and body is the namespace of the test. `ignore` names what may differ, as dotted paths in the
        body (`metadata.managedFields`; `*` is every item or key). Fails with both answers and what differs.
        """
        path, body = self._fill(path), self._fill(body)
        embedded, real = await asyncio.gather(
            *(
                server.ask(method, path, copy.deepcopy(body), content_type=content_type, headers=headers)
                for server in self.servers
            )
        )
        compare(f"{method} {path}", embedded, real, ignore)
        return embedded

    async def each(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Answer, Answer]:
        """Ask both and compare nothing: for preparation."""
        path, body = self._fill(path), self._fill(body)
        embedded, real = await asyncio.gather(
            *(server.ask(method, path, body, content_type=content_type, headers=headers) for server in self.servers)
        )
        return embedded, real

    async def same_watch(self, path: str, count: int, *, ignore: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Demand the same first `count` events of a watch."""
        path = self._fill(path)
        embedded, real = await asyncio.gather(*(server.watch(path, count) for server in self.servers))
        compare(f"WATCH {path}", Answer(200, embedded), Answer(200, real), ignore)
        return embedded

    def _fill(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{ns}", self.namespace)
        if isinstance(value, dict):
            return {self._fill(key): self._fill(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._fill(item) for item in value]
        return value


def compare(what: str, embedded: Answer, real: Answer, ignore: Sequence[str] = ()) -> None:
    """Demand that two answers are the same but for what must differ."""
    left, right = normalise(embedded.body), normalise(real.body)
    for path in ignore:
        _drop(left, path.split("."))
        _drop(right, path.split("."))
    differences = list(_differences(left, right, ""))
    if embedded.code != real.code:
        differences.insert(0, f"code: embedded {embedded.code}, real {real.code}")
    if sorted(embedded.warnings) != sorted(real.warnings):
        differences.append(f"warnings: embedded {embedded.warnings}, real {real.warnings}")
    if embedded.content_type != real.content_type:
        differences.append(f"content type: embedded {embedded.content_type!r}, real {real.content_type!r}")
    if differences:
        listing = "\n  ".join(differences[:40])
        raise AssertionError(
            f"{what}: the servers differ\n  {listing}\n\nembedded: {_short(embedded.body)}\n\nreal: {_short(real.body)}"
        )


def normalise(value: Any, key: str = "") -> Any:
    """An answer without what differs between any two servers."""
    if isinstance(value, dict):
        generate = value.get("generateName") if isinstance(value.get("generateName"), str) else None
        made = {name: normalise(item, name) for name, item in value.items()}
        if generate and isinstance(value.get("name"), str) and value["name"].startswith(generate):
            made["name"] = f"{generate}<random>"
        return made
    if isinstance(value, list):
        if key == "managedFields" and all(isinstance(item, dict) for item in value):
            value = _by_owner(value)
        return [normalise(item, key) for item in value]
    if isinstance(value, str):
        if key in ("resourceVersion", "continue") and value:
            return f"<{key}>"
        if key == "cells" and _AGE.fullmatch(value):  # of a table, which a busy machine tells a second apart
            return "<age>"
        value = _TIME.sub("<time>", value)
        return _UID.sub("<uid>", value)
    return value


def _by_owner(entries: list[dict[str, Any]]) -> list[Any]:
    """The entries of managed fields by their manager, and whether they were in order.

    A server sorts them by time, in seconds, of which one of two may see the next begin between two requests.
    """

    def said(*names: str) -> Callable[[dict[str, Any]], tuple[str, ...]]:
        return lambda entry: tuple(str(entry.get(name, "")) for name in names)

    in_order = entries == sorted(entries, key=said("operation", "time", "manager", "apiVersion", "subresource"))
    return [in_order, *sorted(entries, key=said("operation", "manager", "apiVersion", "subresource"))]


def _drop(value: Any, path: list[str]) -> None:
    head, rest = path[0], path[1:]
    if isinstance(value, dict):
        for name in list(value) if head == "*" else [head]:
            if not rest:
                value.pop(name, None)
            elif name in value:
                _drop(value[name], rest)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if head in ("*", str(index)):
                if rest:
                    _drop(item, rest)
                else:
                    value[index] = None
            elif not head.isdigit():
                _drop(item, path)


def _differences(left: Any, right: Any, at: str):
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(left.keys() | right.keys()):
            if name not in left:
                yield f"{at}.{name}: missing in embedded, real {_short(right[name])}"
            elif name not in right:
                yield f"{at}.{name}: embedded {_short(left[name])}, missing in real"
            else:
                yield from _differences(left[name], right[name], f"{at}.{name}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _differences(one, other, f"{at}[{index}]")
    elif left != right or type(left) is not type(right):
        yield f"{at}: embedded {_short(left)}, real {_short(right)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else repr(value)
    return text if len(text) < 1500 else f"{text[:1500]}…"
