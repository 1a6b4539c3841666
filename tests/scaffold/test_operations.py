"""The operations of the scaffold as pure functions from project to project."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.scaffold import External, ScaffoldError, WebhookOptions, delete_api, delete_webhook, edit
from steersman.scaffold.names import check_kind, version_order
from steersman.scaffold.project import Project, Webhooks, dump, parse

from .projects import EMPTY, api, webhook


def refused(act, *words):
    with pytest.raises(ScaffoldError) as wrong:
        act()
    for word in words:
        assert word in str(wrong.value)


def changed(project: Project, **what) -> Project:
    nothing = dict.fromkeys(("multigroup", "namespaced", "description", "license", "owner"))
    return edit(project, **(nothing | what))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"kind": "helloApp"}, "Pascal case"),
        ({"kind": "Hello-App"}, "Pascal case"),
        ({"kind": "None"}, "reserved"),
        ({"kind": "Resource"}, "reserved"),
        ({"kind": "ValueError"}, "reserved"),
        ({"kind": "K" * 51}, "at most 50"),
        ({"version": "1"}, "v1beta1"),
        ({"version": "v0"}, "v1beta1"),
        ({"group": "Apps"}, "lower case"),
        ({"group": "class"}, "keyword"),
        ({"group": "../etc"}, "lower case"),
        ({"plural": "Examples"}, "lower-case"),
        ({"resource": False}, "create it with"),
        ({"resource": False, "external": External("no-module")}, "module"),
    ],
)
def test_a_bad_name_is_refused_with_what_would_do(options, word):
    refused(lambda: api(EMPTY, **options), word)


def test_a_kind_comes_with_a_controller_and_its_second_version_without():
    project = api(api(EMPTY), version="v1beta1")
    first, second = (
        project.find("apps.example.com", "v1", "Example"),
        project.find("apps.example.com", "v1beta1", "Example"),
    )
    assert first
    assert second
    assert (first.controllers, first.storage) == (("",), True)
    assert (second.controllers, second.storage) == ((), False)


def test_what_is_there_is_not_created_again_without_force():
    project = api(EMPTY)
    refused(lambda: api(project), "exists already", "--force", "--controller-name")
    assert api(project, force=True) == project


def test_kinds_that_differ_in_case_alone_clash():
    refused(lambda: api(api(EMPTY), kind="EXample"), "conflicts with Example")


def test_two_kinds_do_not_share_a_plural():
    refused(lambda: api(api(EMPTY), kind="Other", plural="examples"), "--plural", "used by Example")


def test_plural_and_scope_are_the_same_in_all_versions():
    project = api(EMPTY, namespaced=False)
    refused(lambda: api(project, version="v2", namespaced=True), "--namespaced")
    refused(lambda: api(project, version="v2", plural="exx"), "--plural")
    assert not api(project, version="v2").find("apps.example.com", "v2", "Example").namespaced


def test_several_groups_need_a_project_that_says_so():
    refused(lambda: api(api(EMPTY), group="infra"), "edit --multigroup")
    project = api(changed(api(EMPTY), multigroup=True), group="infra")
    assert [r.path for r in project.resources] == [
        "demo_operator.api.v1.example_types", "demo_operator.api.infra.v1.example_types",
    ]  # fmt: skip
    refused(lambda: changed(project, multigroup=False), "several groups")


def test_controllers_of_one_operator_have_different_names():
    project = api(EMPTY)
    refused(lambda: api(project, resource=False), "has this controller already")
    project = api(project, resource=False, controller_name="canary")
    assert project.resources[0].controllers == ("", "canary")
    refused(lambda: api(project, kind="Canary"), "'canary' exists already")
    refused(lambda: api(project, resource=False, controller_name="Not-A-Label"), "lower-case")


def test_the_same_kind_of_two_groups_gets_two_controllers_by_itself():
    project = api(changed(api(EMPTY), multigroup=True), group="infra")
    assert [r.controllers for r in project.resources] == [("",), ("infra-example",)]


def test_a_controller_for_a_kind_of_kubernetes_needs_no_type():
    project = api(EMPTY, kind="Deployment", resource=False)
    (deployment,) = project.resources
    assert (deployment.path, deployment.qualified_group, deployment.plural) == ("steersman.k8s", "apps", "deployments")


def test_a_webhook_for_pods_and_for_somebody_elses_kind():
    project = webhook(EMPTY, group="core", kind="Pod", defaulting=True)
    project = webhook(
        project, group="certs", kind="Certificate", validation=True, external=External("my_models", "example.org")
    )
    assert [str(r) for r in project.resources] == ["Pod (v1)", "Certificate (certs.example.org/v1)"]
    options = WebhookOptions("certs", "v1", "Certificate", external=External("", "example.org"))
    assert delete_webhook(delete_webhook(project, options), WebhookOptions("core", "v1", "Pod")) == EMPTY


def test_webhooks_say_which_they_are_and_come_once():
    refused(lambda: webhook(api(EMPTY)), "--defaulting")
    project = webhook(api(EMPTY), defaulting=True)
    refused(lambda: webhook(project, defaulting=True), "already", "--force")
    assert webhook(project, validation=True).resources[0].webhooks == Webhooks(defaulting=True, validation=True)


def test_conversion_needs_a_hub_and_spokes_that_are_there():
    project = api(EMPTY)
    refused(lambda: webhook(project, conversion=True), "--spoke")
    refused(lambda: webhook(project, conversion=True, spoke=["v2"]), "create api", "v2")
    refused(lambda: webhook(project, conversion=True, spoke=["v1"]), "the hub itself")
    refused(lambda: webhook(project, defaulting=True, spoke=["v2"]), "needs --conversion")
    refused(lambda: webhook(EMPTY, group="core", kind="Pod", conversion=True, spoke=["v2"]), "only the project")
    project = webhook(api(project, version="v2"), conversion=True, spoke=["v2"])
    refused(lambda: webhook(project, version="v2", conversion=True, spoke=["v1"]), "is the hub of its kind")
    refused(lambda: delete_api(project, "apps", "v2", "Example"), "delete webhook --conversion")


def test_the_stored_version_goes_last():
    project = api(api(EMPTY), version="v2")
    refused(lambda: delete_api(project, "apps", "v1", "Example"), "storage version", "v2")
    assert delete_api(delete_api(project, "apps", "v2", "Example"), "apps", "v1", "Example") == EMPTY


def test_what_is_not_there_cannot_be_deleted():
    refused(lambda: delete_api(api(EMPTY), "apps", "v1", "Other"), "it has Example (apps.example.com/v1)")
    refused(lambda: delete_webhook(api(EMPTY), WebhookOptions("apps", "v1", "Example")), "no webhooks")


def test_a_project_file_reads_back_as_it_was():
    project = webhook(api(api(EMPTY, namespaced=False), version="v2"), conversion=True, spoke=["v2"], defaulting=True)
    project = webhook(api(project, resource=False, controller_name="canary"), group="core", kind="Pod", validation=True)
    project = changed(project, description="It is: fine #1", license="MIT", owner="Ann", namespaced=True)
    assert parse(dump(project)) == project


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "layout"),
        ("a: [", "not YAML"),
        ("layout: [go.kubebuilder.io/v4]", "layout"),
        ("layout: [steersman/v1]", "has no"),
        (dump(EMPTY).replace("demo_operator", "import"), "PROJECT: package"),
        (dump(api(EMPTY)).replace("kind: Example", "kind: [1]"), "PROJECT"),
        (dump(api(EMPTY)).replace("demo_operator.api.v1", "../../etc"), "PROJECT"),
        (dump(EMPTY) + "resources: 3\n", "wrong type"),
    ],
)
def test_a_project_file_that_was_spoiled_is_refused(text, word):
    refused(lambda: parse(text), word)


@given(st.text(alphabet="abcXYZ019-_. \n", max_size=8))
def test_a_kind_is_a_class_name_or_refused(word):
    try:
        check_kind(word)
    except ScaffoldError:
        return
    assert word.isidentifier()
    assert word[0].isupper()


def test_versions_sort_as_the_api_server_sorts_them():
    assert sorted(["v2", "v1beta2", "v1", "v1alpha1", "v1beta1"], key=version_order) == [
        "v1alpha1", "v1beta1", "v1beta2", "v1", "v2",
    ]  # fmt: skip


@pytest.mark.parametrize("what", ["description", "license", "owner"])
@pytest.mark.parametrize("text", ['say "hi"', "two\nlines", "back\\slash"])
def test_what_would_break_a_toml_string_is_refused(what, text):
    refused(lambda: changed(EMPTY, **{what: text}), f"--{what}")
