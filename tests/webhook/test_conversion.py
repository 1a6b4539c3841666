"""Conversions: the way between versions, what becomes of metadata, and what is said when one fails."""

import json

import pytest
from structlog.testing import capture_logs

from steersman import Model, Resource, replace
from steersman.client import ApiError, Client
from steersman.models import dynamic, view_of
from steersman.operator import Operator
from steersman.webhook.conversion import Conversion, ConversionFailed, Converters
from steersman.webhook.http import WebhookRequest

GROUP = "conv.steersman.dev"


class OneSpec(Model):
    host_port: str = ""


class OldPump(Resource, group=GROUP, version="v1alpha1", kind="Pump", storage=False):
    """A pump, as it was."""

    spec: OneSpec = OneSpec()


class HubSpec(Model):
    host: str = ""
    port: int = 0


class Pump(Resource, group=GROUP, version="v1"):
    """A pump."""

    spec: HubSpec = HubSpec()


class NewSpec(Model):
    address: HubSpec = HubSpec()
    note: str | None = None


class NewPump(Resource, group=GROUP, version="v2", kind="Pump", storage=False):
    """A pump, as it will be."""

    spec: NewSpec = NewSpec()


def old_to_hub(old):
    host, _, port = old.spec.host_port.partition(":")
    return Pump(metadata=old.metadata, spec=HubSpec(host=host, port=int(port)))


def hub_to_old(hub):
    return OldPump(metadata=hub.metadata, spec=OneSpec(host_port=f"{hub.spec.host}:{hub.spec.port}"))


def hub_to_new(hub):
    note = hub.metadata.annotations.get("note")
    return NewPump(metadata=hub.metadata, spec=NewSpec(address=hub.spec, note=note))


def new_to_hub(new):
    notes = {"note": new.spec.note} if new.spec.note is not None else {}
    kept = {name: value for name, value in new.metadata.annotations.items() if name != "note"}
    return Pump(metadata=replace(new.metadata, annotations={**kept, **notes}), spec=new.spec.address)


def step(source, target, function):
    async def call(obj, _):
        return function(obj)

    return Conversion(view_of(source), view_of(target), call, "app.py:1: convert")


@pytest.fixture
def converters():
    return Converters(
        [
            step(OldPump, Pump, old_to_hub),
            step(Pump, OldPump, hub_to_old),
            step(Pump, NewPump, hub_to_new),
            step(NewPump, Pump, new_to_hub),
        ]
    )


def pump(version="v1alpha1", spec=None, **metadata):
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Pump",
        "metadata": {"name": "p", "namespace": "prod", "uid": "u", "resourceVersion": "7", **metadata},
        "spec": {"hostPort": "db:3306"} if spec is None else spec,
    }


async def ask(converters, *objects, to="v2", **changes):
    request = {"uid": "42", "desiredAPIVersion": f"{GROUP}/{to}", "objects": list(objects)}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request, **changes}
    answer = await converters.handle(WebhookRequest("POST", "/convert", "", {}, json.dumps(body).encode()))
    return answer.status, json.loads(answer.body)


async def test_versions_that_nothing_joins_are_reached_through_the_hub(converters):
    code, answer = await ask(converters, pump(), pump("v1", {"host": "a", "port": 1}), pump("v2", {"address": {}}))
    assert code == 200
    assert answer["response"]["uid"] == "42"
    assert answer["response"]["result"] == {"status": "Success"}
    first, second, third = answer["response"]["convertedObjects"]
    assert first["apiVersion"] == f"{GROUP}/v2"
    assert first["spec"] == {"address": {"host": "db", "port": 3306}}
    assert second["spec"] == {"address": {"host": "a", "port": 1}}
    assert third == pump("v2", {"address": {}})


async def test_metadata_is_carried_over_as_it_came(converters):
    """H5: also what no class knows; labels and annotations alone are the function's to change."""
    fields = {"managedFields": [{"manager": "x"}], "futureField": {"a": 1}, "labels": {"l": "1"}, "finalizers": ["f/x"]}
    _, answer = await ask(converters, pump("v2", {"address": {}, "note": "hi"}, **fields), to="v1")
    metadata = answer["response"]["convertedObjects"][0]["metadata"]
    assert metadata == {
        "name": "p", "namespace": "prod", "uid": "u", "resourceVersion": "7", **fields, "annotations": {"note": "hi"},
    }  # fmt: skip


@pytest.mark.parametrize("via", ["v1", "v2"])
async def test_an_object_comes_back_as_it_was(converters, via):
    """H5"""
    there = await converters.convert(json.dumps(pump()).encode(), f"{GROUP}/{via}")
    assert json.loads(await converters.convert(there, f"{GROUP}/v1alpha1")) == pump()


@pytest.mark.parametrize(
    ("obj", "to", "words"),
    [
        (pump(spec={"hostPort": "db"}), "v1", "Pump prod/p: the conversion to conv.steersman.dev/v1 failed"),
        (pump(spec={"hostPort": 3}), "v1", "does not fit conv.steersman.dev/v1alpha1"),
        (pump("v7"), "v1", "no conversion leads from v7 to v1"),
        (pump(), "v9", "no conversion leads from v1alpha1 to v9"),
        ({**pump(), "kind": "Valve"}, "v1", "no conversion is declared for Valve.conv.steersman.dev"),
        ({**pump(), "apiVersion": "other.dev/v1"}, "v1", "are not of one group"),
        ("nonsense", "v1", "is no object"),
    ],
)
async def test_what_cannot_be_converted_is_told_and_nothing_of_the_review_is_converted(converters, obj, to, words):
    with capture_logs() as lines:
        code, answer = await ask(converters, pump(), obj, to=to)
    response = answer["response"]
    assert (code, response["result"]["status"], response["convertedObjects"]) == (200, "Failure", [])
    assert words in response["result"]["message"]
    assert "3306" not in response["result"]["message"]
    assert any(line.get("request") == "42" for line in lines)


async def test_a_function_may_say_itself_why_it_cannot(converters):
    def refuse(_):
        raise ConversionFailed("spec.hostPort has no port")

    converters = Converters([step(OldPump, Pump, refuse)])
    _, answer = await ask(converters, pump(), to="v1")
    assert answer["response"]["result"]["message"] == "Pump prod/p: spec.hostPort has no port"


@pytest.mark.parametrize("changes", [{"kind": "AdmissionReview"}, {"apiVersion": "v1"}, {"request": None}])
async def test_what_is_no_conversion_review_is_a_400(converters, changes):
    code, status = await ask(converters, pump(), **changes)
    assert (code, status["reason"]) == (400, "BadRequest")


def operator_of_pumps():
    operator = Operator("pumps")
    operator.converts(OldPump, Pump)(_typed(old_to_hub, OldPump))
    operator.converts(Pump, OldPump)(_typed(hub_to_old, Pump))
    operator.converts(Pump, NewPump)(_typed(hub_to_new, Pump))
    operator.converts(NewPump, Pump)(_typed(new_to_hub, NewPump))
    return operator


def _typed(function, _kind):
    def convert(obj):
        return function(obj)

    return convert


async def test_an_api_server_serves_every_version_of_what_it_stores(cluster, operator):
    """H5: through the API server, with the operator outside of the cluster."""
    operator(operator_of_pumps())
    versions = {v: dynamic(f"{GROUP}/{v}", "Pump") for v in ("v1alpha1", "v1", "v2")}
    async with Client(cluster.config) as client:
        space = cluster.namespace
        made = pump("v2", {"address": {"host": "db", "port": 1}, "note": "n"}, namespace=space)
        made["metadata"] = {"name": "p", "namespace": space}
        await client.create(made)
        old = await client.get(versions["v1alpha1"], "p", space)
        assert old["spec"] == {"hostPort": "db:1"}
        assert (await client.get(versions["v2"], "p", space))["spec"] == made["spec"]
        listed = await client.list(versions["v1"], space)
        assert [o["spec"] for o in listed.items] == [{"host": "db", "port": 1}]
        with pytest.raises(ApiError, match=r"Pump .*bad: the conversion to conv.steersman.dev/v1 failed"):
            await client.create({**pump(spec={"hostPort": "nothing"}), "metadata": {"name": "bad", "namespace": space}})
        assert len((await client.list(versions["v1"], space)).items) == 1


@pytest.mark.realcluster
async def test_the_real_api_server_serves_every_version_of_what_it_stores(cluster, operator):
    """H5"""
    await test_an_api_server_serves_every_version_of_what_it_stores(cluster, operator)
