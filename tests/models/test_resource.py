import subprocess
import sys
from typing import Any

import pytest

from steersman.models import (
    Column,
    Key,
    Model,
    ObjectMeta,
    Resource,
    Scale,
    decode,
    dynamic,
    encode,
    info_of,
    key_of,
    lookup,
    metadata_of,
    view_of,
)
from steersman.models.resource import wire_path
from steersman.models.resource_info import guess_plural


class WidgetSpec(Model):
    max_size: int = 1


class WidgetStatus(Model):
    ready_replicas: int = 0


class Widget(
    Resource,
    group="shop.example.com",
    version="v1",
    short_names=("wg",),
    scale=Scale(spec="spec.max_size", status="status.ready_replicas"),
    columns=(Column("Size", "spec.max_size"),),
):
    """A thing."""

    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus = WidgetStatus()


class Gadget(Resource, group="shop.example.com", version="v1", namespaced=False, plural="gadgetry"):
    status: WidgetStatus = WidgetStatus()


def test_a_kind_writes_its_own_identity():
    assert encode(Widget(metadata=ObjectMeta(name="a"))) == (
        b'{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"a"}}'
    )


def test_the_info_of_a_kind_is_derived_and_declared():
    info = info_of(Widget)

    assert (info.plural, info.singular, info.list_kind, info.crd_name) == (
        "widgets",
        "widget",
        "WidgetList",
        "widgets.shop.example.com",
    )
    assert info.has_status
    assert info_of(Widget()) is info_of(view_of(Widget)) is info


def test_paths_follow_the_scope_and_are_escaped():
    assert info_of(Widget).path("ns", "a", "status") == "/apis/shop.example.com/v1/namespaces/ns/widgets/a/status"
    assert info_of(Widget).path(None) == "/apis/shop.example.com/v1/widgets"
    assert info_of(Gadget).path("ns", "a/b") == "/apis/shop.example.com/v1/gadgetry/a%2Fb"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group": "shop.example.com"}, "version= is missing"),
        ({"group": "Shop", "version": "v1"}, "lower-case DNS name"),
        ({"group": "shop.io", "version": "1"}, "DNS label such as 'v1'"),
        ({"group": "shop.io", "version": "v1", "kind": "widget"}, "start with a capital"),
        ({"group": "shop.io", "version": "v1", "plural": "Widgets"}, "lower-case DNS label"),
    ],
)
def test_a_wrong_declaration_is_an_error_of_the_class(arguments: dict[str, Any], message: str):
    with pytest.raises(TypeError, match=message):
        type(Resource)("Widget", (Resource,), {"__module__": __name__}, **arguments)


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Pod", "pods"),
        ("Ingress", "ingresses"),
        ("Policy", "policies"),
        ("Gateway", "gateways"),
        ("Endpoints", "endpoints"),
        ("Box", "boxes"),
    ],
)
def test_plurals_are_guessed_as_kubernetes_tools_do(kind: str, plural: str):
    assert guess_plural(kind) == plural


def test_a_kind_is_found_by_its_names():
    assert lookup("shop.example.com/v1", "Widget") is Widget
    assert lookup("shop.example.com/v2", "Widget") is None


def test_built_in_kinds_are_found_without_being_imported():
    code = (
        "import sys; from steersman.models import lookup; assert 'steersman.k8s' not in sys.modules; "
        "print(lookup('apps/v1', 'Deployment').__name__, lookup('apps/v1', 'Deploymint'), "
        "*[m for m in sys.modules if m.startswith('steersman.k8s.')])"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert shown.split()[:2] == ["Deployment", "None"]
    assert "steersman.k8s.batch_v1" not in shown


def test_three_views_of_one_kind():
    data = encode(Widget(metadata=ObjectMeta(name="a", namespace="n"), spec=WidgetSpec(max_size=3)))
    typed, meta = view_of(Widget), metadata_of(Widget)
    plain = dynamic("shop.example.com/v1", "Widget")

    assert typed.decode(data).spec.max_size == 3
    assert meta.decode(data).metadata.name == "a"
    assert plain.decode(data)["spec"]["maxSize"] == 3
    assert (typed.form, meta.form, plain.form) == ("typed", "metadata", "dynamic")
    assert key_of(typed.decode(data)) == key_of(plain.decode(data)) == Key("n", "a")
    assert view_of(typed) is typed


def test_what_is_no_kind_is_refused():
    with pytest.raises(TypeError, match="is not a kind"):
        info_of(WidgetSpec)


def test_paths_into_a_model_are_translated_and_checked():
    assert wire_path(Widget, "spec.max_size") == "spec.maxSize"
    assert wire_path(Widget, ".status.readyReplicas") == "status.readyReplicas"
    with pytest.raises(TypeError, match="WidgetSpec has no field 'size'"):
        wire_path(Widget, "spec.size")


def test_a_status_field_without_a_sub_resource():
    class Review(Resource, group="shop.example.com", version="v1", status_subresource=False):
        status: WidgetStatus = WidgetStatus()

    assert not info_of(Review).has_status
    assert decode(Review, b'{"status":{"readyReplicas":1}}').status.ready_replicas == 1
