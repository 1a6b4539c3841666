import json
import random
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
import pytest

import steersman.k8s
from codegen import models
from codegen.sources import api_documents, discovery_documents
from steersman.k8s._index import KINDS, NAMES
from steersman.models import MicroTime, Quantity, Resource, decode, encode, from_dict, info_of, lookup, to_dict
from steersman.models.codegen.openapi import WELL_KNOWN

ROOT = Path(__file__).resolve().parents[2]
KIND_IDS = sorted(KINDS)


@cache
def schemas() -> dict[str, dict[str, Any]]:
    documents = [json.loads(document) for document in api_documents().values()]
    return {name: schema for d in documents for name, schema in d["components"]["schemas"].items()}


def class_of(kind: tuple[str, str]) -> type[Resource]:
    module, name = KINDS[kind]
    return getattr(import_module(f"steersman.k8s.{module}"), name)


def test_regeneration_yields_the_committed_bytes():
    for path, content in models.generate().items():
        assert (ROOT / path).read_bytes() == content, f"{path}: run `make generate`"


def test_nothing_in_the_directory_is_left_from_an_older_version():
    made = {*(path.name for path in models.generate()), "__init__.py"}

    assert {p.name for p in (ROOT / "src/steersman/k8s").iterdir() if p.is_file()} == made


def is_list(schema: Mapping[str, Any]) -> bool:
    return "x-kubernetes-group-version-kind" in schema and {"items", "metadata"} <= schema["properties"].keys()


def test_every_definition_is_a_class_or_a_type_of_its_own():
    missing: list[str] = []
    for name, schema in schemas().items():
        if name in WELL_KNOWN or not schema.get("properties") or is_list(schema):
            continue
        *_, area, version, cls = name.split(".")
        module = import_module(f"steersman.k8s.{area}_{version}")
        if not issubclass(getattr(module, cls, object), msgspec.Struct):
            missing.append(name)
    assert not missing


def test_every_property_has_a_field_of_its_wire_name():
    for name, schema in schemas().items():
        if name in WELL_KNOWN or not schema.get("properties") or is_list(schema):
            continue
        *_, area, version, cls = name.split(".")
        struct = getattr(import_module(f"steersman.k8s.{area}_{version}"), cls)
        wire = {f.encode_name for f in msgspec.structs.fields(struct)}
        assert wire == {*schema["properties"]}, name


def test_every_kind_knows_what_discovery_says_of_it():
    seen = 0
    for document in discovery_documents():
        for item in document["items"]:
            for version in item["versions"]:
                group = item["metadata"].get("name", "")
                api_version = f"{group}/{version['version']}" if group else version["version"]
                for resource in version["resources"]:
                    info = info_of(class_of((api_version, resource["responseKind"]["kind"])))
                    assert info.plural == resource["resource"]
                    assert info.namespaced == (resource["scope"] == "Namespaced")
                    assert info.singular == resource["singularResource"]
                    assert info.short_names == tuple(resource.get("shortNames", ()))
                    assert info.categories == tuple(resource.get("categories", ()))
                    subresources = {s["subresource"] for s in resource.get("subresources", ())}
                    assert info.has_status == ("status" in subresources)
                    assert (info.scale is not None) == ("scale" in subresources)
                    seen += 1
    assert seen > 60


def sample(hint: Any, rng: random.Random, depth: int) -> Any:
    """A value of a type: deep enough to be interesting, finite although types are recursive."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return sample(args[0], rng, depth)
    if origin in (Union, UnionType):
        chosen = rng.choice([a for a in args if a is not type(None)])
        return None if type(None) in args and (depth <= 0 or rng.random() < 0.3) else sample(chosen, rng, depth)
    if origin is tuple:
        return tuple(sample(args[0], rng, depth - 1) for _ in range(rng.randrange(3) if depth > 0 else 0))
    if origin is not None and issubclass(origin, Mapping):
        return {f"k{i}": sample(args[1], rng, depth - 1) for i in range(rng.randrange(3) if depth > 0 else 0)}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return sample_of(hint, rng, depth - 1)
    scalars: dict[Any, Any] = {
        str: rng.choice(["", "a", "ü\u0085\u2028", "x/y"]),
        int: rng.choice([0, 1, -1, 2**31]),
        float: rng.choice([0.0, 0.5]),
        bool: rng.random() < 0.5,
        bytes: rng.choice([b"", b"\x00\xff"]),
        datetime: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        MicroTime: MicroTime(2026, 1, 2, 3, 4, 5, 6, UTC),
        Quantity: Quantity(rng.choice(["0", "100m", "1Gi"])),
        Any: rng.choice([None, 0, False, {"a": [1, None]}, "x"]),
    }
    return scalars[hint]


@cache
def hints_of(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def sample_of(cls: type[msgspec.Struct], rng: random.Random, depth: int) -> Any:
    values: dict[str, Any] = {}
    for f in msgspec.structs.fields(cls):
        if f.name in ("api_version", "kind") and issubclass(cls, Resource):
            continue
        if f.required or (depth > 0 and rng.random() < 0.7):
            values[f.name] = sample(hints_of(cls)[f.name], rng, depth)
    return cls(**values)


@pytest.mark.parametrize("kind", KIND_IDS, ids="/".join)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_kind_round_trips(kind: tuple[str, str], seed: int):
    cls = class_of(kind)
    obj = sample_of(cls, random.Random(seed), 6)

    data = encode(obj)

    assert decode(cls, data) == obj
    assert from_dict(cls, to_dict(obj)) == obj
    assert json.loads(data)["apiVersion"] == kind[0]
    assert json.loads(data)["kind"] == kind[1]
    assert json.loads(encode(decode(cls, data))) == json.loads(data)


@pytest.mark.parametrize("kind", KIND_IDS, ids="/".join)
def test_every_kind_is_found_by_api_version_and_kind(kind: tuple[str, str]):
    assert lookup(*kind) is class_of(kind)
    assert info_of(class_of(kind)).api_version == kind[0]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_public_name_leads_to_its_class(name: str):
    module, _, cls = NAMES[name].partition(":")

    assert getattr(steersman.k8s, name) is getattr(import_module(f"steersman.k8s.{module}"), cls)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'Podd'"):
        _ = cast(Any, steersman.k8s).Podd
    assert lookup("apps/v1", "Podd") is None


def test_the_preferred_version_wins_and_the_others_have_names_of_their_own():
    from steersman.k8s import Event, EventsV1Event, HorizontalPodAutoscaler, ResourceClaim, autoscaling_v1

    assert Event.__module__ == "steersman.k8s.core_v1"
    assert EventsV1Event.__module__ == "steersman.k8s.events_v1"
    assert HorizontalPodAutoscaler.__module__ == "steersman.k8s.autoscaling_v2"
    assert autoscaling_v1.HorizontalPodAutoscaler is not HorizontalPodAutoscaler
    assert issubclass(ResourceClaim, Resource), "the kind, not the struct of the same name in core/v1"


def test_the_stub_names_what_the_index_knows():
    stub = (ROOT / "src/steersman/k8s/__init__.pyi").read_text()
    named = [line.rpartition(" as ")[2] for line in stub.splitlines() if " as " in line]

    assert {*NAMES} <= {*named}


FRESH = """
import pathlib, sys
import steersman
from steersman.k8s import Pod
modules = sorted(m for m in sys.modules if m.startswith("steersman.k8s."))
status = pathlib.Path("/proc/self/status").read_text()
peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024 if "VmHWM:" in status else 0
print(peak, *modules)
"""


def test_a_pod_costs_at_most_40_mb_and_loads_only_its_module():
    """What it costs in time is for the benchmarks to say (`import`)."""
    run = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True)
    peak, *modules = run.stdout.split()
    assert float(peak) <= 40
    assert modules == ["steersman.k8s._index", "steersman.k8s.core_v1"]
