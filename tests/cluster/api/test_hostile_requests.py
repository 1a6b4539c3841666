"""Requests made to exhaust or break a parser: each ends in a 4xx with a Status, and in little time."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from steersman_cluster.api.requests.field_selectors import MAX_TERMS
from steersman_cluster.api.requests.label_selectors import MAX_REQUIREMENTS
from steersman_cluster.api.requests.messages import Params, Request
from steersman_cluster.strategy import User

from .direct import ADMIN, Direct, Headers

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = "application/apply-patch+yaml"
CONFIG_MAP = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
MERGES = b"a: &a {x: y}\n" + b"".join(
    b"%c: &%c {<<: [*%c,*%c,*%c]}\n" % (n + 1, n + 1, n, n, n) for n in range(ord("a"), ord("z"))
)


async def asked(
    method: str,
    path: str,
    body: bytes = b"",
    content_type: str = "application/json",
    *,
    user: User | None = ADMIN,
    headers: dict[str, str] | None = None,
    **query: str,
) -> tuple[int, dict[str, Any]]:
    given = Headers({"content-type": content_type, "user-agent": "test/1", **(headers or {})})
    answer = await Direct().api.handle(Request(method, path, Params(query.items()), given, body, user))
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 30_000,
        b"[" * 1_500 + b"]" * 1_500,
        b"- " * 30_000,
        MERGES,
        b"a: &a [*a]",
        b'a: "\\ud800"',
        b"a: \xed\xa0\x80",
        CONFIG_MAP + b" a: x\n" * 100_000,
        CONFIG_MAP + b"".join(b" k%d: x\n" % n for n in range(150_000)),
        CONFIG_MAP + b" a: " + b"x" * (4 << 20),
    ],
    ids=["brackets", "1500 levels", "dashes", "merges", "recursive", "escape", "surrogate", "repeated", "many", "long"],
)
@pytest.mark.parametrize("validation", ["Ignore", "Strict"])
async def test_yaml_beyond_the_bounds_is_a_400(body: bytes, validation: str) -> None:
    for method, path, kind in (("POST", CONFIG_MAPS, "application/yaml"), ("PATCH", f"{CONFIG_MAPS}/a", APPLY)):
        query = {"fieldValidation": validation, **({"fieldManager": "test"} if kind == APPLY else {})}
        status, answer = await asked(method, path, body, kind, **query)
        assert (status, answer["kind"], answer["code"]) == (400, "Status", 400), answer


@pytest.mark.parametrize(("validation", "status"), [("Strict", 400), ("Warn", 201), ("Ignore", 201)])
async def test_yaml_with_a_repeated_key_and_an_unknown_field_names_both(validation: str, status: int) -> None:
    body = CONFIG_MAP + b" a: x\n a: y\nb: z\n"
    found, answer = await asked("POST", CONFIG_MAPS, body, "application/yaml", fieldValidation=validation)
    assert found == status, answer
    if status == 400:
        assert 'key "a" already set in map, unknown field "b"' in answer["message"]


async def test_an_unknown_field_without_a_name_is_reported_with_its_path() -> None:
    body = b'{"metadata":{"name":"a","":"b"}}'
    status, answer = await asked("POST", CONFIG_MAPS, body, fieldValidation="Strict")
    assert (status, 'unknown field "metadata."' in answer["message"]) == (400, True), answer


@pytest.mark.parametrize("levels", [400, 1_500, 100_000])
@pytest.mark.parametrize(
    "kind", ["application/merge-patch+json", "application/strategic-merge-patch+json", "application/json-patch+json"]
)
async def test_a_patch_with_many_levels_is_refused(levels: int, kind: str) -> None:
    nested = b'{"data":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"
    body = b'[{"op":"add","path":"/data","value":' + nested + b"}]" if "json-patch" in kind else nested
    direct = Direct()
    await direct.ask("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    request = Request("PATCH", f"{CONFIG_MAPS}/a", Params(()), Headers({"content-type": kind}), body, ADMIN)
    answer = await direct.api.handle(request)
    assert 400 <= answer.status < 500, answer.body


async def test_a_lone_surrogate_in_json_becomes_the_replacement_character() -> None:
    body = rb'{"metadata":{"name":"a"},"data":{"a":"x\ud800y","b":"\ud83d\ude00","c":"\\ud800","d":"\uDC00"}}'
    status, answer = await asked("POST", CONFIG_MAPS, body)
    assert (status, answer["data"]) == (201, {"a": "x\ufffdy", "b": "\U0001f600", "c": "\\ud800", "d": "\ufffd"})


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ("labelSelector", ",".join(f"k{n}=v" for n in range(100_000))),
        ("labelSelector", ",".join(["a!=b"] * (MAX_REQUIREMENTS + 1))),
        ("fieldSelector", ",".join(["metadata.name!=b"] * (MAX_TERMS + 1))),
    ],
    ids=["100,000 requirements", "one too many", "field terms"],
)
async def test_a_selector_with_too_many_terms_is_a_400_that_names_the_limit(selector: str, text: str) -> None:
    for verb in ("GET", "DELETE"):
        status, answer = await asked(verb, CONFIG_MAPS, **{selector: text})
        assert status == 400
        assert str(MAX_TERMS) in answer["message"]


async def test_a_selector_at_the_limit_is_taken() -> None:
    status, _ = await asked("GET", CONFIG_MAPS, labelSelector=",".join(["a!=b"] * MAX_REQUIREMENTS))
    assert status == 200


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize("levels", [500, 5_000, 200_000])
@pytest.mark.parametrize("place", ["header", "claims"])
async def test_a_token_that_is_nested_deeply_is_a_401(levels: int, place: str) -> None:
    nested = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
    header, claims = (nested, b"{}") if place == "header" else (b'{"alg":"ES256"}', nested)
    token = f"{encoded(header)}.{encoded(claims)}.{encoded(b'x' * 64)}"
    status, _ = await asked("GET", "/api", user=None, headers={"authorization": f"Bearer {token}"})
    assert status == 401


@pytest.mark.parametrize("key", ["k:", "v:", "i:"])
async def test_managed_fields_with_many_levels_are_refused(key: str) -> None:
    fields = {"f:data": {key + "[" * 100_000: {}}}
    managed = [
        {"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    ]
    body = json.dumps({"metadata": {"name": "a", "managedFields": managed}}).encode()
    status, answer = await asked("POST", CONFIG_MAPS, body)
    assert status in (201, 400, 422), answer


async def test_a_continue_token_with_many_levels_is_a_400() -> None:
    token = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    status, _ = await asked("GET", CONFIG_MAPS, limit="1", **{"continue": token})
    assert status == 400


async def test_a_last_applied_annotation_with_many_levels_is_passed_over() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "[" * 100_000}
    direct = Direct()
    await direct.ask("POST", CONFIG_MAPS, {"metadata": {"name": "a", "annotations": annotations}})
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"}}'
    headers = Headers({"content-type": APPLY})
    query = Params([("fieldManager", "kubectl")])
    answer = await direct.api.handle(Request("PATCH", f"{CONFIG_MAPS}/a", query, headers, body, ADMIN))
    assert answer.status == 200, answer.body
