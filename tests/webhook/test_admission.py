"""Reviews: the arguments of a handler, the use of its result, and the errors of invalid results."""

import asyncio
import base64
import json
from typing import Literal

import pytest
from structlog.testing import capture_logs

from steersman import DeniedError, FieldError, Invalid, Model, Resource, replace
from steersman.k8s import Pod
from steersman.k8s.core_v1 import Container, EnvVar
from steersman.models import JsonPatch, dynamic
from steersman.testing import virtual_time

from .conftest import review


class GadgetSpec(Model):
    size: int = 1
    colour: str | None = None
    parts: tuple[str, ...] = ()


class Gadget(Resource, group="tests.steersman.dev", version="v1"):
    spec: GadgetSpec = GadgetSpec()


def gadget(**spec):
    return {
        "apiVersion": "tests.steersman.dev/v1",
        "kind": "Gadget",
        "metadata": {"name": "g", "namespace": "prod"},
        "spec": spec,
    }


def pod(*containers, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "prod", **metadata},
        "spec": {"containers": list(containers), "futureField": {"kept": True}},
    }


def patched(raw, response):
    if "patch" not in response:
        return raw
    assert response["patchType"] == "JSONPatch"
    return JsonPatch.decode(base64.b64decode(response["patch"])).apply(raw)


def operations(response):
    return [(o["op"], o["path"]) for o in json.loads(base64.b64decode(response["patch"]))]


async def test_a_default_leaves_as_a_patch_and_unknown_fields_stay(route_of):
    """H4: the patch is computed against the raw object, which has a field that the class does not have."""
    ask = route_of(Gadget, lambda g, _: replace(g, spec=replace(g.spec, colour="red")), "defaults")
    raw = gadget(size=3, sparkle="much")
    response = await ask.decides(review(raw))
    assert response["uid"] == "705ab4f5"
    assert response["allowed"] is True
    assert operations(response) == [("add", "/spec/colour")]
    assert patched(raw, response)["spec"] == {"size": 3, "sparkle": "much", "colour": "red"}


async def test_what_a_handler_leaves_alone_is_in_no_patch(route_of):
    """H4: not even what the view writes and the raw object lacks, such as a default of the class."""
    for function in (lambda g, _: None, lambda g, _: g, lambda g, _: replace(g, spec=replace(g.spec))):
        response = await route_of(Gadget, function, "defaults").decides(review(gadget()))
        assert response == {"uid": "705ab4f5", "allowed": True}


async def test_a_value_that_differs_from_the_default_is_written_where_the_object_lacks_it(route_of):
    """H4: `replace` would fail there, since there is nothing to replace."""
    ask = route_of(Gadget, lambda g, _: replace(g, spec=replace(g.spec, size=5)), "mutator")
    response = await ask.decides(review(gadget()))
    assert operations(response) == [("add", "/spec/size")]


async def test_a_container_is_appended_and_the_others_keep_what_nobody_knows(route_of):
    """H4: lists of named items are matched by name, and the patch has only the new items."""

    def inject(p, _):
        sidecar = Container(name="sidecar", image="proxy:1", env=(EnvVar(name="IS_INJECTED", value="true"),))
        return replace(p, spec=replace(p.spec, containers=(*p.spec.containers, sidecar)))

    raw = pod({"name": "app", "image": "app:1", "hologram": 3})
    response = await route_of(Pod, inject, "mutator").decides(review(raw))
    assert operations(response) == [("add", "/spec/containers/1")]
    after = patched(raw, response)
    assert after["spec"]["containers"][0] == {"name": "app", "image": "app:1", "hologram": 3}
    assert after["spec"]["futureField"] == {"kept": True}


async def test_a_container_that_moves_keeps_what_nobody_knows(route_of):
    """H4"""

    def reverse(p, _):
        return replace(p, spec=replace(p.spec, containers=tuple(reversed(p.spec.containers))))

    raw = pod({"name": "a", "image": "a:1", "x": 1}, {"name": "b", "image": "b:1", "y": 2})
    response = await route_of(Pod, reverse, "mutator").decides(review(raw))
    assert patched(raw, response)["spec"]["containers"] == list(reversed(raw["spec"]["containers"]))


async def test_a_dynamic_view_is_changed_in_place(route_of):
    def paint(obj, _):
        obj["spec"]["colour"] = "blue"
        return obj

    ask = route_of(dynamic("tests.steersman.dev/v1", "Gadget"), paint, "mutator")
    assert operations(await ask.decides(review(gadget()))) == [("add", "/spec/colour")]


async def test_a_refusal_is_a_422_with_a_cause_for_each_field(route_of):
    """H3: field paths and texts are those of the API server."""

    def check(g, _):
        raise Invalid(
            FieldError.invalid("spec.size", g.spec.size, "must be even"),
            [FieldError.required("spec.colour"), FieldError.not_supported("spec.parts[0]", "x", ["a", "b"])],
        )

    response = await route_of(Gadget, check, "validator").decides(review(gadget(size=3)))
    status = response["status"]
    assert response["allowed"] is False
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    assert status["message"] == (
        'Gadget.tests.steersman.dev "g" is invalid: [spec.size: Invalid value: 3: must be even, spec.colour: Required '
        'value, spec.parts[0]: Unsupported value: "x": supported values: "a", "b"]'
    )
    assert status["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": "Invalid value: 3: must be even", "field": "spec.size"},
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.colour"},
        {
            "reason": "FieldValueNotSupported",
            "message": 'Unsupported value: "x": supported values: "a", "b"',
            "field": "spec.parts[0]",
        },
    ]


async def test_a_denial_says_why_and_may_choose_its_code(route_of):
    """H3"""

    def forbid(_g, _):
        raise DeniedError("not on Fridays")

    def gone(_g, _):
        raise DeniedError("too many", code=429, reason="TooManyRequests")

    response = await route_of(Gadget, forbid, "validator").decides(review(gadget()))
    assert response["status"] == {
        "metadata": {},
        "status": "Failure",
        "message": "not on Fridays",
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    } or (response["status"]["code"], response["status"]["message"]) == (403, "not on Fridays")
    assert (await route_of(Gadget, gone, "validator").decides(review(gadget())))["status"]["code"] == 429


async def test_warnings_are_shown_whether_the_request_passes_or_not(route_of):
    def warn(_g, admission):
        admission.warn("size is deprecated")
        return ["use scale", "x" * 300]

    def refuse(_g, admission):
        admission.warn("think twice")
        raise DeniedError("no")

    response = await route_of(Gadget, warn, "validator").decides(review(gadget()))
    assert response["warnings"] == ["size is deprecated", "use scale", "x" * 256]
    response = await route_of(Gadget, refuse, "validator").decides(review(gadget()))
    assert response["warnings"] == ["think twice"]


async def test_a_handler_knows_the_request(route_of):
    """H5: and whether anything of it will be stored."""
    seen = {}

    def look(g, a):
        seen.update(
            user=a.user.username, groups=a.user.groups, dry=a.dry_run, old=a.old, space=a.namespace, sub=a.subresource
        )
        seen.update(operation=a.operation, name=a.name, uid=a.uid, size=g.spec.size, options=a.options)

    body = review(
        gadget(size=2), old=gadget(size=1), operation="UPDATE", dryRun=True, subResource="status", options=None
    )
    await route_of(Gadget, look, "validator").decides(body)
    assert seen.pop("old").spec.size == 1
    assert seen == {
        "user": "jane", "groups": ("dev",), "dry": True, "space": "prod", "sub": "status", "operation": "UPDATE",
        "name": "g", "uid": "705ab4f5", "size": 2, "options": {},
    }  # fmt: skip


async def test_a_delete_shows_the_object_that_goes(route_of):
    sizes = []
    ask = route_of(Gadget, lambda g, _: sizes.append(g.spec.size), "validator")
    await ask.decides(review(None, old=gadget(size=7), operation="DELETE"))
    assert sizes == [7]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is not an AdmissionReview"),
        (b"{", "is not an AdmissionReview"),
        (b"[]", "is not an AdmissionReview"),
        (b"\xff\xfe", "is not an AdmissionReview"),
        (b"{}", "expected admission.k8s.io/v1, AdmissionReview, not no apiVersion, no kind"),
        (b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}', "not admission.k8s.io/v1beta1"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "has no request"),
        (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"","operation":"CREATE"}}',
            "uid is empty",
        ),
        (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"PEEK"}}',
            "Invalid enum value 'PEEK'",
        ),
    ],
)
async def test_a_malformed_review_is_a_400_that_says_what_is_missing(route_of, body, words):
    code, status = await route_of(Gadget, lambda g, _: None, "validator")(body)
    assert (code, status["kind"], status["reason"]) == (400, "Status", "BadRequest")
    assert words in status["message"]


async def test_an_object_that_does_not_fit_its_class_is_refused_with_the_field(route_of):
    ask = route_of(Gadget, lambda g, _: None, "validator")
    response = await ask.decides(review(gadget(size="big")))
    assert response["status"]["code"] == 422
    assert response["status"]["details"]["causes"][0]["field"] == "spec.size"


async def test_a_required_field_that_is_missing_is_told_as_the_api_server_tells_it(route_of):
    ask = route_of(Pod, lambda p, _: None, "mutator")
    response = await ask.decides(review(pod({"image": "app:1"})))
    (cause,) = response["status"]["details"]["causes"]
    assert cause == {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers[0].name"}


async def test_a_crash_is_a_500_without_a_word_of_what_happened_and_logged_once(route_of):
    """H3"""

    def crash(_g, _):
        raise KeyError("the secret is swordfish")

    with capture_logs() as lines:
        code, status = await route_of(Gadget, crash, "mutator")(review(gadget()))
    assert (code, status["code"], status["reason"]) == (500, 500, "InternalError")
    assert status["message"] == "the webhook the-hook failed; the reason is in the operator's log"
    assert len(lines) == 1
    assert lines[0]["request"] == "705ab4f5"
    assert "swordfish" in lines[0]["error"]


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("red", "returned a str"),
        (pod(), "returned a dict"),
        (Pod(), "returned a Pod"),
        (7, "returned a int"),
    ],
)
async def test_nonsense_that_a_handler_returns_is_a_500_that_the_log_explains(route_of, returned, words):
    """H3"""
    with capture_logs() as lines:
        code, _ = await route_of(Gadget, lambda g, _: returned, "defaults")(review(gadget()))
    assert code == 500
    assert words in lines[0]["error"]
    assert lines[0]["declared"] == "app.py:1: hook"


@pytest.mark.parametrize("field", ["name", "namespace", "uid", "resource_version"])
async def test_the_identity_of_an_object_is_not_a_handlers_to_change(route_of, field):
    ask = route_of(Gadget, lambda g, _: replace(g, metadata=replace(g.metadata, **{field: "other"})), "mutator")
    with capture_logs() as lines:
        code, _ = await ask(review(gadget()))
    assert code == 500
    assert "which webhooks must not change" in lines[0]["error"]


async def test_labels_and_annotations_are_a_handlers_to_change(route_of):
    ask = route_of(Gadget, lambda g, _: replace(g, metadata=replace(g.metadata, labels={"a": "b"})), "mutator")
    assert operations(await ask.decides(review(gadget()))) == [("add", "/metadata/labels")]


@virtual_time
async def test_a_handler_that_hangs_is_given_up_before_the_api_server_gives_up():
    """H3: the deadline is shorter than what the API server says that it waits."""
    from .conftest import RouteCaller

    async def hang(_g, _):
        await asyncio.sleep(3600)

    loop = asyncio.get_running_loop()
    times = {"timeout=10s": 9.0, "timeout=1s": 0.75, "timeout=400ms": 0.2, "timeout=5m": 27.0}
    times |= dict.fromkeys(("", "timeout=soon", "timeout=0s", "timeout=-3s", "timeout=5"), 9.0)
    for query, seconds in times.items():
        started = loop.time()
        with capture_logs() as lines:
            code, status = await RouteCaller(Gadget, hang, "mutator")(review(gadget()), query)
        assert (code, status["reason"]) == (504, "Timeout")
        assert loop.time() - started == pytest.approx(seconds)
        assert len(lines) == 1


async def test_more_reviews_than_fit_are_asked_to_come_again(route_of):
    free = asyncio.Event()

    async def wait(_g, _):
        await free.wait()

    ask = route_of(Gadget, wait, "mutator", max_requests=2)
    waiting = [asyncio.create_task(ask(review(gadget()))) for _ in range(2)]
    await asyncio.sleep(0)
    code, status = await ask(review(gadget()))
    assert (code, status["reason"]) == (429, "TooManyRequests")
    free.set()
    assert [code for code, _ in await asyncio.gather(*waiting)] == [200, 200]
    assert (await ask(review(gadget())))[0] == 200


class TeaSpec(Model):
    kind: Literal["green", "black"] = "green"


class Tea(Resource, group="webhook.steersman.dev", version="v1"):
    spec: TeaSpec = TeaSpec()


async def test_a_value_that_an_enum_of_the_class_does_not_have_is_refused_with_those_it_has(route_of):
    ask = route_of(Tea, lambda tea, _: None, "validator")
    sent = gadget() | {"kind": "Tea", "spec": {"kind": "mint"}}
    response = await ask.decides(review(sent))
    assert response["status"]["code"] == 422
    (cause,) = response["status"]["details"]["causes"]
    assert cause == {
        "reason": "FieldValueNotSupported",
        "field": "spec.kind",
        "message": 'Unsupported value: "mint": supported values: "black", "green"',
    }
