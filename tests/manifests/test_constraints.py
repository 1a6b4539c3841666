"""Every constraint both ways, over random definitions: good values are taken, bad ones are refused by their field."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steersman import Model, Resource
from steersman.cli.crds.validation import embedded_check
from steersman.manifests import crds, to_yaml
from steersman.testing import Cluster
from tests.manifests.drawn import Drawn, fields
from tests.manifests.server import Strict

NUMBERS = count()


def kind_of(drawn: list[Drawn]) -> type[Resource]:
    """A kind with a group of its own, whose spec has the fields `f0`, `f1`, …, all optional."""
    body: dict[str, Any] = {"__annotations__": {}, "__module__": __name__}
    for index, field in enumerate(drawn):
        body["__annotations__"][f"f{index}"] = field.hint | None
        body[f"f{index}"] = None
    spec = type(Model)("Spec", (Model,), body)
    whole = {"__annotations__": {"spec": spec}, "__module__": __name__}
    return type(Resource)("Thing", (Resource,), whole, group=f"g{next(NUMBERS)}.drawn.example.com", version="v1")


def exercise(server: Strict, drawn: list[Drawn]) -> None:
    kind = kind_of(drawn)
    info = kind.__resource__
    crd = crds([kind], check=embedded_check())[0]
    server.install(crd)
    path = info.path("default")

    def thing(name: str, value: Any) -> dict[str, Any]:
        metadata = {"name": "x"}
        return {"apiVersion": info.api_version, "kind": info.kind, "metadata": metadata, "spec": {name: value}}

    for index, field in enumerate(drawn):
        name = f"f{index}"
        shown = f"{field.hint}\n{to_yaml(crd)}"
        for value in field.good:
            assert server.send("POST", path, thing(name, value)) == (201, "", []), (value, shown)
        for value in field.bad:
            code, message, _ = server.send("POST", path, thing(name, value))
            assert code in (400, 422), (value, code, message, shown)
            assert f"spec.{name}" in message, (value, message, shown)
    stays = {f"f{i}": field.good for i, field in enumerate(drawn) if field.immutable and len(field.good) > 1}
    if stays:
        first = {name: good[0] for name, good in stays.items()}
        created = {**thing("", None), "spec": first}
        assert server.send("POST", path, created, dry=False)[0] == 201
        for name, good in stays.items():
            assert server.send("PATCH", f"{path}/x", {"spec": {name: good[0]}})[0] == 200
            code, message, _ = server.send("PATCH", f"{path}/x", {"spec": {name: good[1]}})
            assert (code, "is immutable" in message) == (422, True), (name, good, message)
    server.session.call("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{info.crd_name}")


SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}


@pytest.mark.slow
@settings(max_examples=25, **SETTINGS)
@given(drawn=st.lists(fields(), min_size=3, max_size=10))
def test_good_values_are_taken_and_bad_ones_refused(cluster: Cluster, drawn: list[Drawn]) -> None:
    server = Strict(cluster)
    with server.session:
        exercise(server, drawn)


@pytest.mark.realcluster
@settings(max_examples=4, **SETTINGS)
@given(drawn=st.lists(fields(), min_size=15, max_size=20))
def test_the_real_server_agrees(cluster: Cluster, drawn: list[Drawn]) -> None:
    server = Strict(cluster)
    with server.session:
        exercise(server, drawn)
