"""Installs CustomResourceDefinitions when a replica starts: server-side apply, then a wait until they are served."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import quote

from steersman.client import ApiError, Client, Forbidden
from steersman.telemetry.log import get_logger

__all__ = ["CrdInstallError", "install_crds"]

_log = get_logger("crds")

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_APPLY: Final = "application/apply-patch+yaml"
_ESTABLISHED_WITHIN_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_VERB: Final = re.compile(r"cannot (\w+) resource")


class CrdInstallError(Exception):
    """A definition cannot be installed; the message names it, the reason and the solution."""


async def install_crds(
    client: Client, definitions: Sequence[Mapping[str, Any]], *, manager: str, dry_run: bool = False
) -> None:
    """Apply definitions and return when all of them are served.

    Several replicas may do so at the same time. Fields of other managers stay, except those that `definitions` contain:
    these are taken over.

    Args:
        client: A client that retries transient errors.
        definitions: The CustomResourceDefinitions, complete with apiVersion and kind.
        manager: The field manager.
        dry_run: Let the API server check the definitions, and store none.

    Raises:
        CrdInstallError: The API server refuses a definition, or does not serve it in time.
    """
    for definition in definitions:
        await _apply(client, definition, manager, dry_run=dry_run)
    if not dry_run:
        for definition in definitions:
            await _established(client, str(definition["metadata"]["name"]))


async def _apply(client: Client, definition: Mapping[str, Any], manager: str, *, dry_run: bool) -> None:
    name = str(definition["metadata"]["name"])
    query = [("fieldManager", manager), ("force", "true"), *([("dryRun", "All")] if dry_run else [])]
    try:
        answer = await client.raw.request(
            "PATCH", _path(name), query=query, body=json.dumps(definition).encode(), content_type=_APPLY
        )
    except ApiError as problem:
        raise _refused(name, problem) from None
    result = "created" if answer.status == 201 else "applied"
    _log.info("crd_installed", name=name, result=result, dry_run=dry_run)


async def _established(client: Client, name: str) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _ESTABLISHED_WITHIN_SECONDS
    while True:
        try:
            found = json.loads((await client.raw.request("GET", _path(name))).body)
        except ApiError as problem:
            raise _refused(name, problem) from None
        conditions = _conditions(found)
        if conditions.get("Established", {}).get("status") == "True":
            return
        names = conditions.get("NamesAccepted", {})
        if names.get("status") == "False":
            raise CrdInstallError(f"CustomResourceDefinition {name} is not served: {names.get('message')}")
        if loop.time() > deadline:
            raise CrdInstallError(
                f"CustomResourceDefinition {name} is not served after {_ESTABLISHED_WITHIN_SECONDS:g} s;"
                f" `kubectl describe crd {name}` shows its conditions"
            )
        await asyncio.sleep(_POLL_SECONDS)


def _conditions(definition: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    status = cast("dict[str, Any]", definition.get("status") or {})
    return {c["type"]: c for c in cast("list[dict[str, str]]", status.get("conditions") or [])}


def _refused(name: str, problem: ApiError) -> CrdInstallError:
    if not isinstance(problem, Forbidden):
        return CrdInstallError(f"CustomResourceDefinition {name} is refused: {problem.status.message or problem}")
    found = _VERB.search(problem.status.message)
    verb = found[1] if found else "patch"
    limit = "" if verb == "create" else f" with the resource name {name!r}"
    return CrdInstallError(
        f"--install-crds needs the verb {verb!r} on customresourcedefinitions.apiextensions.k8s.io{limit}:"
        f" {problem.status.message}. `steersman manifests --install-crds` writes a ClusterRole that grants it;"
        " without the option, install the CRDs with `steersman install` or kubectl"
    )


def _path(name: str) -> str:
    return f"{_CRDS}/{quote(name, safe='')}"
