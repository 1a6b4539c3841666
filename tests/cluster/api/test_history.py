"""Responses of the API server about past revisions, as time passes."""

import json
from typing import Any

from steersman.testing import Simulation, simulated
from steersman_cluster.api.requests.messages import Params, Request
from steersman_cluster.cluster import ADMIN

from .direct import Headers

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"


async def ask(simulation: Simulation, method: str, path: str, body: Any = None, **query: str) -> dict[str, Any]:
    headers = Headers({"content-type": "application/json"})
    data = b"" if body is None else json.dumps(body).encode()
    answer = await simulation.cluster.server.handle(Request(method, path, Params(query.items()), headers, data, ADMIN))
    content = answer.body
    if answer.stream is not None:
        content = b"".join([chunk async for chunk in answer.stream])
    return json.loads(content.splitlines()[0]) if content else {}


async def made(simulation: Simulation, path: str, name: str) -> str:
    body: dict[str, Any] = {"metadata": {"name": name}}
    if path == EVENTS:
        body["involvedObject"] = {"kind": "Pod", "name": "web", "namespace": "default", "apiVersion": "v1"}
    return (await ask(simulation, "POST", path, body))["metadata"]["resourceVersion"]


@simulated(controllers=False, nodes=0)
async def test_the_second_page_of_a_list_expires_within_ten_minutes(simulation: Simulation) -> None:
    for name in "abc":
        await made(simulation, CONFIG_MAPS, name)
    first = await ask(simulation, "GET", CONFIG_MAPS, limit="1")
    token = first["metadata"]["continue"]
    await made(simulation, CONFIG_MAPS, "d")
    await simulation.passes(minutes=4)
    assert len((await ask(simulation, "GET", CONFIG_MAPS, **{"continue": token}))["items"]) == 2
    await simulation.passes(minutes=7)
    refused = await ask(simulation, "GET", CONFIG_MAPS, **{"continue": token})
    assert (refused["code"], refused["reason"]) == (410, "Expired")
    inconsistent = refused["metadata"]["continue"]
    rest = await ask(simulation, "GET", CONFIG_MAPS, **{"continue": inconsistent})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c", "d"]


@simulated(controllers=False, nodes=0)
async def test_a_watch_of_events_from_eleven_minutes_ago_is_told_to_list_afresh(simulation: Simulation) -> None:
    revision = await made(simulation, EVENTS, "one")
    await made(simulation, EVENTS, "two")
    await simulation.passes(minutes=4)
    told = await ask(simulation, "GET", EVENTS, watch="1", resourceVersion=revision, timeoutSeconds="1")
    assert told["object"]["metadata"]["name"] == "two"
    await simulation.passes(minutes=7)
    told = await ask(simulation, "GET", EVENTS, watch="1", resourceVersion=revision, timeoutSeconds="1")
    assert (told["type"], told["object"]["code"]) == ("ERROR", 410)


@simulated(controllers=False, nodes=0)
async def test_a_watch_of_config_maps_goes_on_where_it_was_an_hour_ago(simulation: Simulation) -> None:
    revision = await made(simulation, CONFIG_MAPS, "one")
    await made(simulation, CONFIG_MAPS, "two")
    await simulation.passes(hours=1)
    told = await ask(simulation, "GET", CONFIG_MAPS, watch="1", resourceVersion=revision, timeoutSeconds="1")
    assert told["object"]["metadata"]["name"] == "two"
