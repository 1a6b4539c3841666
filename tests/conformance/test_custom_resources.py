"""Custom resources: values, updates, status and scale answered alike by both servers."""

import asyncio
import copy
from typing import Any

import pytest

from .crd_cases import VALUES, obj
from .harness import MERGE, Both, compare
from .kinds import unordered
from .test_crds import PATH, named

PLAIN = sorted(name for name in VALUES if not name.startswith("rule"))


async def serve(both: Both, made: dict[str, Any]) -> str:
    """Create a definition on both and wait until both serve it; the path of its objects."""
    await both.each("POST", PATH, made)
    path = f"/apis/example.com/v1/namespaces/{{ns}}/{made['spec']['names']['plural']}"
    for _ in range(100):
        answers = await both.each("GET", path)
        if all(answer.code == 200 for answer in answers):
            break
        await asyncio.sleep(0.05)
    return path


@pytest.mark.parametrize("name", PLAIN)
async def test_values_are_answered_alike(both: Both, name: str) -> None:
    schema, values = VALUES[name]
    made = named(f"plain{name}", obj({name: schema}))
    path = await serve(both, made)
    try:
        for value in values:
            sent = {"apiVersion": "example.com/v1", "kind": made["spec"]["names"]["kind"], "metadata": {"name": "x"}}
            body = {**sent, "spec": {name: copy.deepcopy(value)}}
            # The real server goes through maps: which fault it tells first differs from time to time.
            embedded, real = [
                unordered(answer) if answer.code == 422 else answer
                for answer in await both.each("POST", f"{path}?dryRun=All", body)
            ]
            compare(f"POST {path} {value}", embedded, real)
    finally:
        await both.each("DELETE", f"{PATH}/{made['metadata']['name']}")


async def test_status_and_scale_are_subresources(both: Both) -> None:
    schema = obj({"size": {"type": "integer"}})
    made = named("scaled", schema)
    version = made["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = obj({"ready": {"type": "integer"}})
    version["subresources"] = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"},
    }
    path = await serve(both, made)
    try:
        sent = {"apiVersion": "example.com/v1", "kind": "Scaled", "metadata": {"name": "x"}, "spec": {"size": 1}}
        await both.same("POST", path, {**sent, "status": {"ready": 5}})
        await both.same("PATCH", f"{path}/x/status", {"spec": {"size": 9}, "status": {"ready": 2}}, content_type=MERGE)
        await both.same("PATCH", f"{path}/x", {"spec": {"size": 3}, "status": {"ready": 7}}, content_type=MERGE)
        await both.same("GET", f"{path}/x/scale")
        await both.same("PATCH", f"{path}/x/scale", {"spec": {"replicas": 4}}, content_type=MERGE)
        await both.same("PATCH", f"{path}/x/scale", {"spec": {"replicas": -1}}, content_type=MERGE)
        await both.same("GET", f"{path}/x")
        table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        await both.same(
            "GET", path, headers=table, ignore=["rows.*.object", "rows.*.cells.1", "columnDefinitions.*.description"]
        )
    finally:
        await both.each("DELETE", f"{PATH}/scaled.example.com")
