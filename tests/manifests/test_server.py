"""The real API server accepts the generated CRDs strictly and without a warning, and enforces every constraint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml

from steersman import Model, Resource
from steersman.manifests import Conversion, crds, definitions
from steersman.models import EMPTY, from_dict
from steersman.models.markers import Immutable, ListMap, MaxLength
from steersman.testing import ControlPlane
from tests.manifests import broad
from tests.manifests.server import CRDS, Strict

pytestmark = pytest.mark.realcluster()
BROADS = "/apis/broad.example.com/v1/namespaces/default/broads"


@pytest.fixture(scope="module")
def server() -> Iterator[Strict]:
    with ControlPlane.start() as plane:
        strict = Strict(plane)
        strict.install(crds([broad.Broad])[0])
        yield strict
        strict.session.close()


def thing(spec: dict[str, Any], name: str = "x") -> dict[str, Any]:
    return {"apiVersion": "broad.example.com/v1", "kind": "Broad", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("field", broad.CASES)
def test_every_constraint_takes_good_values_and_refuses_bad_ones(server: Strict, field: str) -> None:
    good, bad = broad.CASES[field]
    for value in good:
        assert server.send("POST", BROADS, thing({field: value})) == (201, "", [])
    for value in bad:
        code, message, _ = server.send("POST", BROADS, thing({field: value}))
        assert code in (400, 422), (value, code)
        assert field in message or "source" in message


def test_unknown_fields_are_refused(server: Strict) -> None:
    assert 'unknown field "spec.nothing"' in server.send("POST", BROADS, thing({"nothing": 1}))[1]


def test_immutable_fields_stay_and_rules_see_the_old_value(server: Strict) -> None:
    assert server.send("POST", BROADS, thing({"grows": 3}, "held"), dry=False)[0] == 201
    path = f"{BROADS}/held"

    assert server.send("PATCH", path, {"spec": {"fixed": "g"}})[1].endswith("fixed is immutable")
    assert server.send("PATCH", path, {"spec": {"grows": 4}})[0] == 200
    assert server.send("PATCH", path, {"spec": {"grows": 2}})[1].endswith("must grow")
    assert server.send("PATCH", path, {"spec": {"once": "set", "namespace": "n"}}, dry=False)[0] == 200
    assert server.send("PATCH", path, {"spec": {"once": "other"}})[1].endswith("once is immutable")
    assert server.send("PATCH", path, {"spec": {"once": None}})[1].endswith("once is immutable")
    assert server.send("PATCH", path, {"spec": {"namespace": None}})[1].endswith("namespace is immutable")


def test_defaults_of_the_schema_are_those_of_python(server: Strict) -> None:
    server.send("POST", BROADS, thing({}, "plain"), dry=False)
    stored = server.session.call("GET", f"{BROADS}/plain")
    assert from_dict(broad.BroadSpec, stored["spec"]) == broad.BroadSpec()
    assert "status" not in stored


def test_definition_and_roles_of_helloapp_are_taken_without_a_warning(server: Strict) -> None:
    config = Path(__file__).parents[2] / "operators" / "helloapp" / "config"
    files = [path for part in ("crd", "rbac") for path in sorted((config / part).glob("*.yaml"))]
    documents = [d for path in files for d in yaml.safe_load_all(path.read_text()) if d["kind"] != "Kustomization"]
    documents.sort(key=lambda d: d["kind"] != "Namespace")
    for document in documents:
        dry = document["kind"] not in ("Namespace", "ClusterRole", "Role")
        assert server.send("POST", collection(document), document, dry=dry) == (201, "", [])


def test_versions_conversion_and_deprecation_are_taken(server: Strict) -> None:
    conversion = {("conv.example.com", "Conv"): Conversion("hook", "ops")}
    (crd,) = definitions([broad.V1, broad.V2], conversions=conversion)
    assert server.send("POST", CRDS, crd) == (201, "", [])


def collection(document: dict[str, Any]) -> str:
    group, _, version = document["apiVersion"].rpartition("/")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    namespace = document["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{guess(document)}" if namespace else f"{root}/{guess(document)}"


def guess(document: dict[str, Any]) -> str:
    return f"{document['kind'].lower()}s"


class Entry(Model):
    key: str
    source: broad.Source | None = None
    text: Annotated[str, Immutable, MaxLength(16)] | None = None
    store: broad.S3 | broad.Disk | None = None


class EndlessSpec(Model):
    entries: Annotated[tuple[Entry, ...], ListMap("key")] = ()
    sources: Mapping[str, broad.Source] = EMPTY


class Endless(Resource, group="endless.example.com", version="v1"):
    spec: EndlessSpec = EndlessSpec()


def test_generated_rules_are_cheap_enough_for_lists_without_bounds(server: Strict) -> None:
    assert server.send("POST", CRDS, crds([Endless])[0]) == (201, "", [])
