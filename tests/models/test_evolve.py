"""`evolve`: changed copies of frozen objects by path."""

import pytest

from steersman.k8s import Container, Deployment, LabelSelector, Pod, PodSpec, PodTemplateSpec
from steersman.k8s.apps_v1 import DeploymentSpec
from steersman.models import Dynamic, Model, ObjectMeta, PathError, evolve


def deployment():
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": "web"}),
        spec=PodSpec(containers=(Container(name="web", image="web:1"), Container(name="log", image="log:1"))),
    )
    return Deployment(
        metadata=ObjectMeta(name="web", labels={"app": "web"}),
        spec=DeploymentSpec(selector=LabelSelector(match_labels={"app": "web"}), template=template),
    )


def test_a_nested_field_changes_in_a_copy_that_shares_the_rest():
    before = deployment()
    after = evolve(before, {"spec.template.spec.node_name": "node-1", "spec.replicas": 3})
    assert after.spec.template.spec.node_name == "node-1"
    assert after.spec.replicas == 3
    assert before == deployment()
    assert after.metadata is before.metadata
    assert after.spec.template.spec.containers is before.spec.template.spec.containers


def test_brackets_select_items_by_field_or_position_and_entries_by_key():
    after = evolve(
        deployment(),
        {
            "spec.template.spec.containers[name=log].image": "log:2",
            "spec.template.spec.containers[0].image": "web:2",
            "metadata.labels[app.kubernetes.io/version]": "2",
        },
    )
    assert [c.image for c in after.spec.template.spec.containers] == ["web:2", "log:2"]
    assert after.metadata.labels == {"app": "web", "app.kubernetes.io/version": "2"}
    with pytest.raises(TypeError, match="immutable"):
        after.metadata.labels["x"] = "y"


def test_an_item_is_appended_where_none_matches_and_none_removes():
    sidecar = Container(name="agent", image="agent:1")
    after = evolve(deployment(), {"spec.template.spec.containers[name=agent]": sidecar})
    assert [c.name for c in after.spec.template.spec.containers] == ["web", "log", "agent"]
    after = evolve(after, {"spec.template.spec.containers[name=web]": None, "metadata.labels[app]": None})
    assert [c.name for c in after.spec.template.spec.containers] == ["log", "agent"]
    assert after.metadata.labels == {}


class Inner(Model):
    size: int = 1


class Strict(Model):
    size: int


class Outer(Model):
    inner: Inner | None = None
    strict: Strict | None = None
    number: int | None = None
    items: tuple[int, ...] = ()


def test_a_missing_struct_on_the_way_is_created_with_its_defaults():
    assert evolve(Outer(), {"inner.size": 7}) == Outer(inner=Inner(size=7))


def test_a_missing_struct_with_required_fields_is_set_as_a_whole():
    with pytest.raises(PathError, match=r"'strict.size': strict is None, and Strict has required fields"):
        evolve(Outer(), {"strict.size": 7})
    assert evolve(Outer(), {"strict": Strict(size=7)}).strict == Strict(size=7)


def test_a_list_becomes_a_tuple():
    assert evolve(Outer(), {"items": [1, 2]}).items == (1, 2)


def test_dynamic_objects_have_the_names_of_the_wire():
    before = Dynamic({"kind": "Web", "metadata": {"name": "a"}, "spec": {"ports": [{"name": "http", "port": 80}]}})
    after = evolve(before, {"spec.ports[name=http].port": 8080, "status.observedGeneration": 2})
    assert after.body["spec"]["ports"] == [{"name": "http", "port": 8080}]
    assert after.body["status"] == {"observedGeneration": 2}
    assert before.body["spec"]["ports"][0]["port"] == 80


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "the path is empty"),
        (".spec", "write names with dots"),
        ("spec..replicas", "write names with dots"),
        ("spec.replica", "DeploymentSpec has no field 'replica'; did you mean 'replicas'?"),
        ("spec.template.spec.containers[9].image", r"\[9\]: the list has 2 items"),
        ("spec.template.spec.containers[web].image", r"by \[0\] or \[field=value\]"),
        ("spec.template.spec.containers[name=db].image", r"no item matches \[name=db\]"),
        ("spec.template.spec.containers.image", "image does not exist in a value of type tuple"),
        ("metadata.name.first", "first does not exist in a value of type str"),
        ("spec.replicas.first", "replicas is None: set it to a whole value"),
    ],
)
def test_a_path_that_does_not_fit_names_the_step(path, words):
    with pytest.raises(PathError, match=words):
        evolve(deployment(), {path: 1})


def test_a_pod_without_a_field_of_that_name_is_refused_before_any_change():
    pod = Pod(metadata=ObjectMeta(name="a"))
    with pytest.raises(PathError, match=r"Pod has no field 'specs'; did you mean 'spec'\?"):
        evolve(pod, {"specs.node_name": "n"})
