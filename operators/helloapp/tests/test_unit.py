"""The desired objects of a HelloApp, as pure functions."""

import pytest
from steersman.models import DecodeError, ObjectMeta, decode, encode, info_of

from helloapp.api.v1.helloapp_types import HelloApp, HelloAppSpec
from helloapp.controllers.helloapp_controller import deployment_for, labels_for


def app(size=2):
    return HelloApp(
        metadata=ObjectMeta(name="web", namespace="shop", uid="u1"), spec=HelloAppSpec(image="nginx:1.27", size=size)
    )


def test_the_deployment_has_the_size_and_the_image_of_the_app():
    deployment = deployment_for(app(size=0))
    assert (deployment.metadata.namespace, deployment.metadata.name) == ("shop", "web")
    assert deployment.spec.replicas == 0
    assert [c.image for c in deployment.spec.template.spec.containers] == ["nginx:1.27"]


def test_the_selector_matches_the_template():
    spec = deployment_for(app()).spec
    assert spec.selector.match_labels == spec.template.metadata.labels == labels_for(app())


def test_zero_replicas_are_written_not_left_out():
    assert b'"replicas":0' in encode(deployment_for(app(size=0)))


@pytest.mark.parametrize(
    ("spec", "path"),
    [({"size": 1}, "image"), ({"image": "", "size": 1}, "$.spec.image"), ({"image": "a", "size": 101}, "$.spec.size")],
)
def test_a_spec_that_breaks_its_constraints_is_refused_with_the_field(spec, path):
    with pytest.raises(DecodeError) as refused:
        decode(HelloApp, encode({"metadata": {"name": "web"}, "spec": spec}))
    assert path in str(refused.value)


def test_the_names_are_the_published_ones():
    info = info_of(HelloApp)
    assert (info.api_version, info.kind, info.plural, info.namespaced) == (
        "apps.anupam.com/v1", "HelloApp", "helloapps", True,
    )  # fmt: skip
