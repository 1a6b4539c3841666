"""Numbers that no float or integer of Go can hold: how each format and each kind of field refuses or keeps them."""

import pytest

from .harness import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, Both, compare

PODS = "/api/v1/namespaces/{ns}/pods"
YAML = "application/yaml"

NUMBERS = (
    "1e999", "-1e999", "1e309", "1.8e308", "1.7976931348623157e308", "1e-999", "0e999", "1E+400", "9" * 30,
    "-" + "9" * 30, "9" * 400, "-" + "9" * 400, "9" * 310 + ".5", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "18446744073709551616", "2147483648", "1e18", "1e19", "1.0", "1.5",
)  # fmt: skip
IDS = [number if len(number) < 24 else f"{number[:4]}x{len(number)}" for number in NUMBERS]
PLACES = {
    "an integer of 64 bits": '"spec": {"activeDeadlineSeconds": %s, "containers": [{"name": "c", "image": "i"}]}',
    "an integer of 32 bits": '"spec": {"priority": %s, "containers": [{"name": "c", "image": "i"}]}',
    "a quantity": '"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": %s}}}]}',
    "a string": '"spec": {"hostname": %s, "containers": [{"name": "c", "image": "i"}]}',
    "a boolean": '"spec": {"hostNetwork": %s, "containers": [{"name": "c", "image": "i"}]}',
    "a number or name": '"spec": {"containers": [{"name": "c", "image": "i", '
    '"readinessProbe": {"httpGet": {"port": %s}}}]}',
    "no field": '"spec": {"nonsense": %s, "containers": [{"name": "c", "image": "i"}]}',
}


@pytest.mark.parametrize("number", NUMBERS, ids=IDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", [JSON, YAML])
async def test_a_pod_with_a_number(both: Both, place: str, number: str, kind: str):
    if place == "a quantity" and number in ("1e999", "-1e999", "0e999"):
        pytest.skip("quantities with larger exponents than 400 are refused: docs/conformance.md")
    body = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, %s}' % (PLACES[place] % number)
    await both.same("POST", f"{PODS}?dryRun=All&fieldValidation=Strict", body.encode(), content_type=kind)


@pytest.mark.parametrize("number", NUMBERS, ids=IDS)
@pytest.mark.parametrize("kind", [JSON_PATCH, MERGE, STRATEGIC, APPLY])
async def test_a_patch_with_a_number(both: Both, number: str, kind: str):
    await both.each("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    patch = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"activeDeadlineSeconds": %s}}'
    if kind == JSON_PATCH:
        patch = '[{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": %s}]'
    query = "?fieldManager=m" if kind == APPLY else ""
    embedded, real = await both.each("PATCH", f"{PODS}/p{query}", (patch % number).encode(), content_type=kind)
    if kind == APPLY and real.code == 500:  # see docs/conformance.md: bad input is not an internal error
        assert (embedded.code, embedded["message"]) == (400, real["message"])
        return
    # A refusal of the outcome quotes it whole, with the numbers as each server writes them.
    quoted = kind in (JSON_PATCH, MERGE) and real.code == 422
    compare("PATCH", embedded, real, ["message", "details.causes.*.message"] if quoted else [])


@pytest.mark.parametrize("number", ["1.5", "0.1", "-2.25e-3", "7"])
async def test_numbers_where_anything_is_allowed(both: Both, number: str):
    revisions = "/apis/apps/v1/namespaces/{ns}/controllerrevisions"
    body = '{"metadata": {"name": "r"}, "revision": 1, "data": {"a": NUMBER, "b": [{"c": NUMBER}]}}'
    made = await both.same("POST", revisions, body.replace("NUMBER", number).encode())
    assert made.code == 201


@pytest.mark.parametrize("number", ["1.5", "1e999", "-1e309", "1e3"])
async def test_numbers_in_fields_of_floats(both: Both, number: str):
    schema = '{"type": "object", "properties": {"a": {"type": "number", "maximum": NUMBER}}}'
    names = '{"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"}'
    versions = '[{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": ' + schema + "}}]"
    spec = '{"group": "numbers.example", "scope": "Namespaced", "names": ' + names + ', "versions": ' + versions + "}"
    body = '{"metadata": {"name": "limits.numbers.example"}, "spec": ' + spec + "}"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
    await both.same("POST", path, body.replace("NUMBER", number).encode())
