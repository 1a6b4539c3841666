"""Changes a CRD's `spec.conversion` during a local run, and restores it together with its field owners.

The previous value is stored in an annotation of the CRD, so that another process can restore it after the run was
killed. A second concurrent run stores the annotation of the first one inside its own, as a stack.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast
from urllib.parse import quote

from steersman.client import ApiError, Client, NotFound
from steersman.models import JsonPatch, dynamic

__all__ = ["ANNOTATION", "FIELD_MANAGER", "is_diverted", "restore", "restore_all", "set_for_local_run", "url_of"]

ANNOTATION: Final = "steersman.dev/conversion-before-local-run"
"""The annotation of a CRD that a local run converts: the previous `spec.conversion` and the owners of its fields."""
FIELD_MANAGER: Final = "steersman-local-run"

_CRD: Final = dynamic("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)
_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_POINTER: Final = f"/metadata/annotations/{ANNOTATION.replace('/', '~1')}"
_ATTEMPTS: Final = 5
_RETRY_SECONDS: Final = 0.05

Json: TypeAlias = dict[str, Any]
Abandoned = Callable[[str, str], Awaitable[bool]]
"""Returns whether a URL that a run on a host has set is not served any more."""


async def set_for_local_run(client: Client, name: str, conversion: Json, host: str, abandoned: Abandoned) -> None:
    """Set `spec.conversion` of the CRD and store the previous value. Raises `NotFound`."""
    url = str(conversion["webhook"]["clientConfig"]["url"])

    async def change(crd: Json) -> JsonPatch:
        before = _annotation(crd)
        now = url_of(crd)
        if before is not None and (now == url or await abandoned(now, str(before.get("host") or ""))):
            kept: Json = before  # of a run that was killed: its own conversion is not restored
        else:
            kept = {"conversion": _conversion(crd), "owners": _owners(crd), "outer": before}
        kept["host"] = host
        patch = JsonPatch().add("/spec/conversion", conversion)
        if not crd["metadata"].get("annotations"):
            patch = patch.add("/metadata/annotations", {})
        return patch.add(_POINTER, json.dumps(kept, separators=(",", ":")))

    await _edit(client, name, change)


async def restore(client: Client, name: str, url: str, abandoned: Abandoned) -> None:
    """Restore the value before the run that converts at `url`, unless the CRD has another URL now."""

    async def change(crd: Json) -> Json | None:
        if url_of(crd) != url:
            return None
        kept = _annotation(crd)
        while kept is not None and kept.get("outer") is not None:
            if not await abandoned(_url(kept["conversion"]), str(kept["outer"].get("host") or "")):
                break
            kept = kept["outer"]
        return kept

    await _restore(client, name, change)


async def restore_all(client: Client, name: str) -> None:
    """Restore the value before all local runs."""

    async def change(crd: Json) -> Json | None:
        kept = _annotation(crd)
        while kept is not None and kept.get("outer") is not None:
            kept = kept["outer"]
        return kept

    await _restore(client, name, change)


def is_diverted(crd: Json) -> bool:
    """Return whether a local run converts for this CRD, or did not restore it."""
    return _at(crd, "metadata", "annotations", ANNOTATION) is not None


def url_of(crd: Json) -> str:
    """Return the URL of the CRD's conversion webhook; empty if it has none."""
    return _url(_conversion(crd))


async def _restore(client: Client, name: str, choose: Callable[[Json], Awaitable[Json | None]]) -> None:
    chosen: Json | None = None

    async def value(crd: Json) -> JsonPatch:
        nonlocal chosen
        chosen = await choose(crd)
        if chosen is None:
            return JsonPatch()
        patch = JsonPatch().add("/spec/conversion", chosen["conversion"])
        if chosen.get("outer") is not None:
            return patch.add(_POINTER, json.dumps(chosen["outer"], separators=(",", ":")))
        return patch.remove(_POINTER)

    async def ownership(crd: Json) -> JsonPatch:
        # The write above made this manager the owner of the restored fields.
        if chosen is None or _conversion(crd) != chosen["conversion"]:
            return JsonPatch()
        return JsonPatch().replace("/metadata/managedFields", _owned_by(crd, chosen["owners"]))

    with suppress(NotFound):
        await _edit(client, name, value)
        await _edit(client, name, ownership)


async def _edit(client: Client, name: str, change: Callable[[Json], Awaitable[JsonPatch]]) -> None:
    """Patch the CRD at the version that was read; read it again if it has changed. Raises `NotFound`."""
    for attempt in range(_ATTEMPTS):
        answer = await client.raw.request("GET", f"{_PATH}/{quote(name, safe='')}")
        crd = cast("Json", json.loads(answer.body))
        patch = await change(crd)
        if not patch:
            return
        at_version = JsonPatch().test("/metadata/resourceVersion", crd["metadata"]["resourceVersion"]) + patch
        try:
            await client.patch(_CRD, name, cast("Any", at_version), field_manager=FIELD_MANAGER, want="version")
        except ApiError as problem:
            if problem.code not in (409, 422) or attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(_RETRY_SECONDS * 2**attempt)
        else:
            return


def _annotation(crd: Json) -> Json | None:
    """Return the stored previous value; the default if the annotation is invalid."""
    text = _at(crd, "metadata", "annotations", ANNOTATION)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return _checked(found) or {"conversion": {"strategy": "None"}, "owners": []}


def _checked(found: Any) -> Json | None:
    if not isinstance(found, dict):
        return None
    kept = cast("Json", found)
    outer = kept.get("outer")
    good = isinstance(kept.get("conversion"), dict) and isinstance(kept.get("owners"), list)
    return kept if good and (outer is None or _checked(outer) is not None) else None


def _conversion(crd: Json) -> Json:
    return cast("Json", crd["spec"].get("conversion") or {"strategy": "None"})


def _at(value: Any, *path: str) -> Any:
    """Return the value at a path, or `None`."""
    for key in path:
        value = cast("Json", value).get(key) if isinstance(value, dict) else None
    return value


def _url(conversion: Any) -> str:
    return str(_at(conversion, "webhook", "clientConfig", "url") or "")


def _owners(crd: Json) -> list[Json]:
    """Return the entries of `managedFields`, reduced to their fields of `spec.conversion`."""
    return [
        {**entry, "fieldsV1": {"f:spec": {"f:conversion": held}}}
        for entry in crd["metadata"].get("managedFields") or ()
        if (held := _at(entry, "fieldsV1", "f:spec", "f:conversion")) is not None
    ]


def _owned_by(crd: Json, owners: list[Json]) -> list[Json]:
    """Return the CRD's `managedFields`, in which only the given owners own fields of `spec.conversion`."""
    entries = {_identity(entry): _without_conversion(entry) for entry in crd["metadata"].get("managedFields") or ()}
    for owner in owners:
        held = owner["fieldsV1"]["f:spec"]["f:conversion"]
        entry = entries.get(_identity(owner)) or {**owner, "fieldsV1": {}}
        fields = entry["fieldsV1"]
        spec: Json = {**(fields.get("f:spec") or {}), "f:conversion": held}
        entries[_identity(owner)] = {**entry, "fieldsV1": {**fields, "f:spec": spec}}
    return [entry for entry in entries.values() if entry["fieldsV1"]]


def _identity(entry: Json) -> tuple[str, ...]:
    return tuple(str(entry.get(key) or "") for key in ("manager", "operation", "apiVersion", "subresource"))


def _without_conversion(entry: Json) -> Json:
    fields: Json = dict(entry["fieldsV1"])
    if "f:spec" in fields:
        held: Json = fields.pop("f:spec")
        spec = {key: value for key, value in held.items() if key != "f:conversion"}
        if set(spec) - {"."}:
            fields["f:spec"] = spec
    return {**entry, "fieldsV1": fields}
