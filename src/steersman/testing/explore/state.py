"""States of the cluster: the view of invariants, and the form in which two runs are compared.

Two correct runs of one scenario differ in uids, times, generated names and addresses. `normal_state`
replaces them. An object that exists twice in one run and once in the other remains a difference.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from steersman.testing.explore.transport import resource_name
from steersman_cluster.objects import Object, dig
from steersman_cluster.storage import Event, Item, Storage

__all__ = ["NormalState", "State", "difference", "masked_name", "name_pattern", "normal_object", "normal_state"]

NormalState = dict[str, list[str]]
"""Canonical texts of objects, by `resource/namespace/name` after masking."""

IGNORED: Final = frozenset(
    {"leases.coordination.k8s.io", "events", "events.events.k8s.io", "nodes", "componentstatuses"}
)
"""Resources whose changes do not matter for the result of a scenario."""
_DROPPED: Final = frozenset({"uid", "resourceVersion", "managedFields", "selfLink", "generation", "creationTimestamp"})
_MASKED_KEYS: Final = frozenset({
    "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history",
    "podIP", "hostIP", "clusterIP", "containerID", "deletionTimestamp", "caBundle", "nodeName", "collisionCount",
    "revision",
})  # fmt: skip
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SECRET_TEXT: Final = re.compile(r"(LS0tLS1CRUdJTi|-----BEGIN |ey[A-Za-z0-9_-]{20,}\.)")
_TOKEN_VOLUME: Final = re.compile(r"\bkube-api-access-[a-z0-9]{5}\b")
"""The generated name of the volume with the token of a Pod's ServiceAccount."""
_ADDRESS: Final = re.compile(r"\b10\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")
_MIN_MASKED_LENGTH: Final = len("10.0.0.0")
_MIN_LONG_LENGTH: Final = len("2000-01-01T00:00:00Z")
"""The lengths of the shortest address, and of the shortest time, uid or name of a volume with a token."""
_sorted_json: Final = json.JSONEncoder(sort_keys=True).encode
_GENERATED: Final = re.compile(r"(?<![a-z0-9])[a-z0-9]*\d[a-z0-9]*(?![a-z0-9])")


def name_pattern(name: str) -> str:
    """Return a name with `*` for each part that contains a digit: `web-7` is `web-*`."""
    return _GENERATED.sub("*", name)


class State:
    """The objects of the cluster at one commit.

    Args:
        storage: The storage of the API server.
        event: The change that has just been stored.
    """

    def __init__(self, storage: Storage, event: Event | None = None) -> None:
        self._storage = storage
        self.event = event
        """The change that has just been stored."""

    def list(self, resource: str, *, namespace: str = "") -> list[Object]:
        """Return the objects of a resource such as `pods` or `apps.example.com`. Do not change them."""
        plural, _, group = resource.partition(".")
        return [_decoded(item) for item in self._storage.items((group, plural), namespace)]

    def get(self, resource: str, name: str, *, namespace: str = "default") -> Object | None:
        """Return an object, or `None`. Do not change it."""
        plural, _, group = resource.partition(".")
        item = self._storage.get((group, plural), namespace, name)
        return None if item is None else _decoded(item)

    @property
    def changed(self) -> str:
        """The resource of the change that has just been stored; empty if there is none."""
        return "" if self.event is None else resource_name(*self.event.resource)


def _decoded(item: Item) -> Object:
    if item.derived is None:
        item.derived = {}
    found = item.derived.get("explore")
    if found is None:
        found = item.derived["explore"] = item.object()
    return found


def _normal_text(item: Item, names: dict[str, str], *, secret: bool, mask: frozenset[str]) -> str:
    obj = _decoded(item)
    assert item.derived is not None
    known, text = item.derived.get("explore text", (None, ""))
    if known != (names, mask):
        normal = normal_object(obj, names, secret=secret, mask=mask)
        text = msgspec.json.format(msgspec.json.encode(normal, order="sorted"), indent=1).decode()
        item.derived["explore text"] = (names, mask), text
    return text


def normal_object(
    obj: Object, names: dict[str, str] | None = None, *, secret: bool = False, mask: frozenset[str] = frozenset()
) -> Any:
    """Return an object without the values that differ between equivalent runs.

    Args:
        obj: The object.
        names: Generated names and their replacements.
        secret: Whether the values of `data` are replaced, because they are random in most Secrets.
        mask: Names of further fields to omit.
    """
    observed: Any = dig(obj, "status", "observedGeneration")
    found = _normal(obj, names or {}, _DROPPED | mask)
    if observed is not None:
        found["status"]["observedGeneration"] = (
            "current" if observed == obj["metadata"].get("generation", observed) else "old"
        )
    if secret:
        for key in ("data", "stringData"):
            if isinstance(found.get(key), dict):
                found[key] = dict.fromkeys(sorted(found[key]), "<value>")
    return found


def _normal(value: Any, names: dict[str, str], dropped: frozenset[str]) -> Any:
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {
            _text(k, names): "<masked>" if k in _MASKED_KEYS else _normal(v, names, dropped)
            for k, v in sorted(fields.items())
            if k not in dropped
        }
    if isinstance(value, list):
        items = [_normal(one, names, dropped) for one in cast(list[Any], value)]
        if items and all(isinstance(one, dict) for one in items):
            items.sort(key=_sorted_json)
        return items
    if isinstance(value, str):
        return _text(value, names)
    return value


def _text(text: str, names: dict[str, str]) -> str:
    if len(text) >= _MIN_MASKED_LENGTH:
        if len(text) > 200 and _SECRET_TEXT.match(text):
            return "<secret>"
        if len(text) >= _MIN_LONG_LENGTH:
            text = _TOKEN_VOLUME.sub("kube-api-access-*", _UID.sub("<uid>", _TIME.sub("<time>", text)))
        text = _ADDRESS.sub("<address>", text)
    return masked_name(text, names)


def masked_name(text: str, names: Mapping[str, str]) -> str:
    """Return a text with the replacements of generated names.

    Args:
        text: A name, or a text that contains names.
        names: Generated names and their replacements, the longest first.
    """
    for name, replacement in names.items():
        if name in text:
            text = text.replace(name, replacement)
    return text


def normal_state(
    storage: Storage, since: int, ignore: frozenset[str] = frozenset(), mask: frozenset[str] = frozenset(), *,
    complete: bool = False,
) -> NormalState:  # fmt: skip
    """Return the state of a cluster in the form that two runs are compared in.

    Args:
        storage: The storage of the API server.
        since: A revision; objects that did not change after it are omitted.
        ignore: Resources to omit, in addition to `IGNORED`.
        mask: Names of fields to omit, in addition to those that always differ.
        complete: Whether the state includes former revisions of workloads.
    """
    names: dict[str, str] = {}
    items = list(_meaningful(storage, since, ignore, complete=complete))
    for _, _, obj in items:
        metadata = obj["metadata"]
        if (prefix := metadata.get("generateName")) and str(metadata["name"]).startswith(prefix):
            names[metadata["name"]] = f"{prefix}*"
    ordered = dict(sorted(names.items(), key=lambda pair: -len(pair[0])))
    found: NormalState = {}
    for resource, item, _ in items:
        key = "/".join(part for part in (resource, item.namespace, _text(item.name, ordered)) if part)
        found.setdefault(key, []).append(_normal_text(item, ordered, secret=resource == "secrets", mask=mask))
    return {key: sorted(texts) for key, texts in sorted(found.items())}


def _meaningful(
    storage: Storage, since: int, ignore: frozenset[str], *, complete: bool
) -> Iterator[tuple[str, Item, Object]]:
    for group, plural in storage.resources():
        resource = resource_name(group, plural)
        if resource in IGNORED or resource in ignore:
            continue
        for item in storage.items((group, plural)):
            if item.revision > since and (not _is_history(resource, obj := _decoded(item)) or complete):
                yield resource, item, obj


def _is_history(resource: str, obj: Object) -> bool:
    """Return whether an object records a former revision of a workload; runs may have different revisions."""
    if resource == "controllerrevisions.apps":
        return True
    owners = obj["metadata"].get("ownerReferences", ())
    return (
        resource == "replicasets.apps"
        and dig(obj, "spec", "replicas") == 0
        and any(owner.get("kind") == "Deployment" for owner in owners)
    )


def difference(reference: NormalState, other: NormalState) -> list[str]:
    """Return the differences between two states, one line for each object and field; empty if they are equal."""
    lines: list[str] = []
    for key in sorted({*reference, *other}):
        one, two = reference.get(key, []), other.get(key, [])
        if one == two:
            continue
        if len(one) != len(two):
            lines.append(f"{key}: {len(two)} objects, {len(one)} in the reference" if one and two else (
                f"{key}: missing" if one else f"{key}: exists, not in the reference"
            ))  # fmt: skip
            continue
        counted, expected = Counter(two), Counter(one)
        for before, after in zip(
            sorted((expected - counted).elements()), sorted((counted - expected).elements()), strict=False
        ):
            changes = [
                line for line in difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
                if not line.startswith(("---", "+++", "@@"))
            ]  # fmt: skip
            lines.append(f"{key}: " + " ".join(" ".join(line.split()) for line in changes[:12]))
    return lines
