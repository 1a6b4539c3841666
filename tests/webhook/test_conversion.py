"""Conversions as the API server requests them: through hubs, without loss, and with a clear error."""

import json

import pytest
from structlog.testing import capture_logs

from steersman import Model, Resource, dynamic
from steersman.models import view_of
from steersman.webhook import DeniedError
from steersman.webhook.conversion_review import Conversion, ConversionRoute, missing
from steersman.webhook.http_messages import WebhookRequest

GROUP = "conversion.example.com"


class SpecA(Model):
    address: str
    """host:port"""
    tags: tuple[str, ...] = ()


class SpecHub(Model):
    host: str
    port: int
    tags: tuple[str, ...] = ()


class SpecB(Model):
    endpoint: "Endpoint"


class Endpoint(Model):
    host: str
    port: int


class StatusHub(Model):
    ready: int = 0


class ServerA(Resource, group=GROUP, version="v1alpha1", kind="Server", storage=False):
    spec: SpecA


class ServerHub(Resource, group=GROUP, version="v1", kind="Server"):
    spec: SpecHub
    status: StatusHub = StatusHub()


class ServerB(Resource, group=GROUP, version="v1beta1", kind="Server", storage=False):
    spec: SpecB


def a_to_hub(obj):
    host, _, port = obj.spec.address.rpartition(":")
    return ServerHub(metadata=obj.metadata, spec=SpecHub(host=host, port=int(port), tags=obj.spec.tags))


def hub_to_a(obj):
    return ServerA(spec=SpecA(address=f"{obj.spec.host}:{obj.spec.port}", tags=obj.spec.tags))


def b_to_hub(obj):
    return ServerHub(metadata=obj.metadata, spec=SpecHub(host=obj.spec.endpoint.host, port=obj.spec.endpoint.port))


def hub_to_b(obj):
    return ServerB(metadata=obj.metadata, spec=SpecB(endpoint=Endpoint(host=obj.spec.host, port=obj.spec.port)))


def conversion(source, target, function):
    async def call(obj, _):
        return function(obj)

    return Conversion(view_of(source), view_of(target), call, f"app.py:1: {getattr(function, '__name__', 'f')}")


ALL = [
    conversion(ServerA, ServerHub, a_to_hub),
    conversion(ServerHub, ServerA, hub_to_a),
    conversion(ServerB, ServerHub, b_to_hub),
    conversion(ServerHub, ServerB, hub_to_b),
]


def server(version, name="one", **parts):
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Server",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        **parts,
    }


async def ask(body, conversions=ALL, query="timeout=30s"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await ConversionRoute(conversions).handle(WebhookRequest("POST", "/convert", query, {}, data))
    return answer.status, json.loads(answer.body)


def review(desired, *objects, uid="c0ffee"):
    request = {"uid": uid, "desiredAPIVersion": f"{GROUP}/{desired}", "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


async def converted(desired, *objects, conversions=ALL):
    code, answer = await ask(review(desired, *objects), conversions)
    assert code == 200
    response = answer["response"]
    assert response["uid"] == "c0ffee"
    assert response["result"] == {"status": "Success"}, response["result"]
    return response["convertedObjects"]


async def failure(desired, *objects, conversions=ALL):
    code, answer = await ask(review(desired, *objects), conversions)
    assert code == 200
    assert answer["response"]["result"]["status"] == "Failure"
    assert answer["response"]["convertedObjects"] == []
    return answer["response"]["result"]["message"]


async def test_objects_are_converted_in_their_order():
    objects = [server("v1alpha1", f"s{n}", spec={"address": f"h{n}:80"}) for n in range(100)]
    made = await converted("v1", *objects)
    assert [o["spec"]["host"] for o in made] == [f"h{n}" for n in range(100)]
    assert {o["apiVersion"] for o in made} == {f"{GROUP}/v1"}


async def test_one_spoke_becomes_another_through_the_hub():
    (made,) = await converted("v1beta1", server("v1alpha1", spec={"address": "db:5432"}))
    assert made == server("v1beta1", spec={"endpoint": {"host": "db", "port": 5432}})


async def test_an_object_of_the_desired_version_comes_back_as_it_is():
    original = server("v1", spec={"host": "a", "port": 1, "x": [None]})
    assert await converted("v1", original) == [original]


async def test_metadata_is_kept_with_what_no_class_knows():
    original = server("v1alpha1", spec={"address": "a:1"})
    original["metadata"] |= {
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:address": {}}}}],
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "unheardOf": {"a": None},
    }
    (made,) = await converted("v1", original)
    assert made["metadata"] == original["metadata"]


async def test_a_function_that_says_nothing_of_metadata_keeps_it():
    original = server("v1", spec={"host": "a", "port": 1})
    original["metadata"]["labels"] = {"app": "web"}
    (made,) = await converted("v1alpha1", original)
    assert made["metadata"] == original["metadata"]


async def test_labels_and_annotations_may_change_and_nothing_else_of_the_metadata():
    from steersman import replace

    def annotate(obj):
        return replace(hub_to_a(obj), metadata=replace(obj.metadata, annotations={"old": "x"}, labels={}))

    original = server("v1", spec={"host": "a", "port": 1})
    original["metadata"] |= {"labels": {"app": "web"}, "managedFields": [{"manager": "m"}]}
    (made,) = await converted("v1alpha1", original, conversions=[conversion(ServerHub, ServerA, annotate)])
    del original["metadata"]["labels"]
    assert made["metadata"] == {**original["metadata"], "annotations": {"old": "x"}}


async def test_a_conversion_must_not_rename_an_object():
    from steersman import replace

    def rename(obj):
        return replace(hub_to_a(obj), metadata=replace(obj.metadata, name="other"))

    message = await failure(
        "v1alpha1", server("v1", spec={"host": "a", "port": 1}), conversions=[conversion(ServerHub, ServerA, rename)]
    )
    assert message.startswith("Server default/one cannot be converted")
    assert "metadata.name" in message


async def test_unknown_fields_survive_at_their_place():
    original = server("v1alpha1", spec={"address": "a:1", "new": {"x": 0}, "flag": False}, other=[1])
    (made,) = await converted("v1", original)
    assert made["spec"] == {"host": "a", "port": 1, "new": {"x": 0}, "flag": False}
    assert made["other"] == [1]


async def test_no_status_is_invented():
    (made,) = await converted("v1", server("v1alpha1", spec={"address": "a:1"}))
    assert "status" not in made


async def test_one_object_that_fails_fails_the_review_and_is_named():
    good = server("v1alpha1", spec={"address": "a:1"})
    bad = server("v1alpha1", "bad", spec={"address": 7})
    message = await failure("v1", good, bad)
    assert message.startswith(f"Server default/bad cannot be converted to {GROUP}/v1: $.spec.address: ")


async def test_a_crash_is_told_without_its_details():
    def crash(_):
        raise RuntimeError("password is hunter2")

    message = await failure(
        "v1", server("v1alpha1", spec={"address": "a:1"}), conversions=[conversion(ServerA, ServerHub, crash)]
    )
    assert "hunter2" not in message
    assert message == (
        f"the conversion of Server default/one from {GROUP}/v1alpha1 to {GROUP}/v1 failed;"
        " the reason is in the operator's log"
    )


async def test_a_refusal_reaches_the_client():
    def refuse(_):
        raise DeniedError("ports above 65535 have no older form")

    message = await failure(
        "v1alpha1", server("v1", spec={"host": "a", "port": 1}), conversions=[conversion(ServerHub, ServerA, refuse)]
    )
    assert message.endswith("ports above 65535 have no older form")


async def test_a_function_that_returns_something_else_is_named():
    message = await failure(
        "v1alpha1",
        server("v1", spec={"host": "a", "port": 1}),
        conversions=[conversion(ServerHub, ServerA, lambda _: None)],
    )
    assert "returned a NoneType, not a ServerA" in message


async def test_versions_that_no_way_leads_to_are_refused():
    assert "the operator declares no converter from" in await failure("v2", server("v1", spec={"host": "a", "port": 1}))
    other = {**server("v1"), "kind": "Client"}
    assert "declares no converter for this kind" in await failure("v1beta1", other)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not a ConversionReview"),
        (b"\xff", "not a ConversionReview"),
        (b"[]", "not a ConversionReview"),
        (b"{}", "expected apiextensions.k8s.io/v1, ConversionReview"),
        ({**review("v1"), "apiVersion": "apiextensions.k8s.io/v1beta1"}, "v1beta1"),
        ({k: v for k, v in review("v1").items() if k != "request"}, "has no request"),
        (review("v1", uid=""), "request.uid is empty"),
    ],
)
async def test_what_is_no_review_is_a_400(body, says):
    code, answer = await ask(body)
    assert code == 400
    assert answer["kind"] == "Status"
    assert says in answer["message"]


async def test_an_object_that_is_none_fails_clearly():
    for obj in ("text", 1, None, [], {}):
        assert "cannot be converted" in await failure("v1", obj)


async def test_a_slow_conversion_ends_before_the_api_server_gives_up():
    import asyncio

    async def hang(_obj, _):
        await asyncio.Event().wait()

    slow = Conversion(view_of(ServerA), view_of(ServerHub), hang, "app.py:1: hang")
    code, answer = await ask(review("v1", server("v1alpha1", spec={"address": "a:1"})), [slow], "timeout=0.05s")
    assert code == 200
    assert "did not finish within" in answer["response"]["result"]["message"]


async def test_dynamic_views_are_converted_too():
    old, new = dynamic(f"{GROUP}/v1alpha1", "Thing"), dynamic(f"{GROUP}/v1", "Thing")

    async def call(obj, _):
        from steersman import Dynamic

        return Dynamic({**obj.__to_wire__(), "apiVersion": f"{GROUP}/v1"})

    original = {**server("v1alpha1", spec={"a": 1}), "kind": "Thing"}
    (made,) = await converted("v1", original, conversions=[Conversion(old, new, call, "")])
    assert made == {**original, "apiVersion": f"{GROUP}/v1"}


def test_directions_that_are_missing_are_named():
    assert missing(ALL) == []
    assert missing(ALL[:3]) == ["Server: v1alpha1 → v1beta1", "Server: v1 → v1beta1"]


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        (server("v1alpha1", spec={"address": 7}), "spec.address"),
        (server("v7"), "the operator declares no converter from"),
        ({**server("v1alpha1"), "apiVersion": "other.example.com/v1"}, "the operator declares no converter from"),
        ({**server("v1alpha1"), "kind": "Valve"}, "declares no converter for this kind"),
        ("nonsense", "cannot be converted"),
    ],
)
async def test_a_failure_is_logged_once_with_the_request_s_uid(obj, says):
    with capture_logs() as lines:
        message = await failure("v1", server("v1alpha1", spec={"address": "secret.example.com:1"}), obj)
    assert says in message
    assert "secret.example.com" not in message
    assert [line["request"] for line in lines] == ["c0ffee"]


@pytest.mark.parametrize("via", ["v1", "v1beta1"])
async def test_an_object_comes_back_as_it_was(via):
    """H5: whatever version it was seen in meanwhile."""
    original = server("v1alpha1", spec={"address": "db:3306"})
    original["metadata"] |= {"finalizers": ["f/x"], "futureField": {"a": 1}, "labels": {"l": "1"}}
    (there,) = await converted(via, original)
    assert await converted("v1alpha1", there) == [original]
