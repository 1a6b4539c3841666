"""Random type definitions: whatever is declared becomes a CRD that the API server accepts, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steersman import Model, Resource
from steersman.cli.crds.validation import embedded_check
from steersman.manifests import ManifestError, crds, to_yaml
from steersman.models import EMPTY, Duration, IntOrString, Quantity
from steersman.models.markers import (
    CEL,
    AtMostOneOf,
    Atomic,
    Ge,
    Immutable,
    Le,
    ListMap,
    MaxItems,
    MaxLength,
    MinLength,
    Nullable,
    Pattern,
    RawExtension,
    Set,
)
from steersman.testing import ControlPlane
from tests.manifests.server import CRDS, Strict


class Shade(StrEnum):
    DARK = "Dark"
    LIGHT = "Light"


MISSING = object()
SCALARS: list[tuple[Any, tuple[Any, ...]]] = [
    (int, (0, -5)),
    (Annotated[int, Ge(0), Le(10)], (0, 10)),
    (str, ("", "y", "null")),
    (Annotated[str, MinLength(1), MaxLength(9)], ("a",)),
    (Annotated[str, Pattern("^[a-z]*$")], ("abc",)),
    (Annotated[str, Immutable], ("once",)),
    (Annotated[int, CEL("self % 2 == 0", message="even")], (2,)),
    (bool, (True, False)),
    (Shade, (Shade.DARK,)),
    (Literal["a", "b"], ("a",)),
    (Literal[1, 2], (1,)),
    (Quantity, (Quantity("1Gi"),)),
    (Duration, (Duration("90s"),)),
    (IntOrString, (1, "10%")),
    (datetime, ()),
    (bytes, (b"abc",)),
]


@st.composite
def scalars(draw: st.DrawFn) -> tuple[Any, Any]:
    hint, values = draw(st.sampled_from(SCALARS))
    return hint, draw(st.sampled_from([MISSING, *values]))


@st.composite
def models(draw: st.DrawFn, depth: int) -> type[Model]:
    annotations: dict[str, Any] = {}
    body: dict[str, Any] = {}
    optional: list[str] = []
    for index in range(draw(st.integers(1, 4))):
        stem = draw(st.sampled_from(["alpha", "in_use", "namespace", "x_y", "kind", "self", "for_"]))
        name = f"{stem}{index}" if index else stem
        hint, default = draw(fields(depth))
        annotations[name] = hint
        if default is not MISSING:
            body[name] = default
        if default is None:
            optional.append(name)
    if len(optional) > 1 and draw(st.booleans()):
        body["__rules__"] = (AtMostOneOf(*optional),)
    return type(Model)("Drawn", (Model,), {**body, "__annotations__": annotations, "__module__": __name__})


@st.composite
def fields(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    hint, default = draw(scalars())
    match draw(st.integers(0, 9 if depth else 5)):
        case 0:
            return hint | None, None
        case 1:
            return Nullable[hint], None
        case 2:
            return tuple[hint, ...], ()
        case 3:
            return Annotated[Mapping[str, hint], draw(st.sampled_from([Atomic, MaxLength(5)]))], EMPTY
        case 4:
            return RawExtension | None, None
        case 5:
            return Annotated[tuple[str, ...], Set, MaxItems(4)], draw(st.sampled_from([(), ("a", "b")]))
        case 6 | 7:
            model = draw(models(depth - 1))
            try:
                return model, draw(st.sampled_from([MISSING, model()]))
            except TypeError:
                return model, MISSING
        case 8:
            return tuple[draw(models(depth - 1)), ...], ()
        case _:
            keyed = type(Model)(
                "Keyed",
                (Model,),
                {"__annotations__": {"key": str, "value": hint}, "__module__": __name__}
                | ({} if default is MISSING else {"value": default}),
            )
            return Annotated[tuple[keyed, ...], ListMap("key"), MaxItems(3)], ()


@st.composite
def kinds(draw: st.DrawFn) -> type[Resource]:
    body = {"__annotations__": {"spec": draw(models(2)), "status": draw(models(1)) | None}, "status": None}
    options = {"group": "random.example.com", "version": "v1", "plural": "randoms"}
    return type(Resource)("Random", (Resource,), {**body, "__module__": __name__}, **options)


def made(kind: type[Resource]) -> dict[str, Any] | None:
    """The CRD; `None` where an immutable value stands in a list, which has no old value, or is too expensive."""
    try:
        return crds([kind], check=embedded_check())[0]
    except ManifestError as refused:
        if all(any(word in line for word in ("oldSelf", "needs a MaxLength", "budget")) for line in refused.problems):
            return None
        raise


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(kinds())
def test_generated_schemas_are_structural_and_stable(kind: type[Resource]) -> None:
    crd = made(kind)
    if crd is not None:
        assert to_yaml(crd) == to_yaml(crds([kind])[0])


@pytest.mark.realcluster
def test_the_real_server_takes_every_generated_definition_and_every_default() -> None:
    with ControlPlane.start() as plane:
        server = Strict(plane)

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        @given(kinds())
        def check(kind: type[Resource]) -> None:
            crd = made(kind)
            if crd is not None:
                assert server.send("POST", CRDS, crd) == (201, "", []), to_yaml(crd)

        with server.session:
            check()
