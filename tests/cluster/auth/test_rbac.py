"""RBAC decisions, their reasons, and that they change with the roles."""

import pytest

from steersman_cluster.auth import ANONYMOUS, MASTERS, Attributes, Auth, aggregate
from steersman_cluster.errors import APIError

from .conftest import Store, rule, subject, user

JANE = user("jane")
LIST = Attributes("list", "", "v1", "configmaps", namespace="default")


def allowed(auth: Auth, attributes: Attributes = LIST, who=JANE) -> bool:
    return auth.authorizer.authorize(who, attributes)[0]


def test_nobody_may_do_anything_without_a_role(auth: Auth):
    with pytest.raises(APIError) as refused:
        auth.authorize(JANE, LIST)
    assert refused.value.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" in the '
        'namespace "default"',
        "reason": "Forbidden",
        "details": {"kind": "configmaps"},
        "code": 403,
    }


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (Attributes("get", path="/metrics"), 'forbidden: User "jane" cannot get path "/metrics"'),
        (
            Attributes("get", "", "v1", "pods", "log", "a", "p"),
            'pods "p" is forbidden: User "jane" cannot get resource "pods/log" in API group "" in the namespace "a"',
        ),
        (
            Attributes("list", "apps", "v1", "deployments"),
            'deployments.apps is forbidden: User "jane" cannot list resource "deployments" in API group "apps" at the '
            "cluster scope",
        ),
    ],
)
def test_a_refusal_says_what_was_asked(auth: Auth, attributes: Attributes, message: str):
    with pytest.raises(APIError, match="cannot") as refused:
        auth.authorize(JANE, attributes)
    assert refused.value.message == message


def test_a_name_that_looks_like_html_is_shown_escaped(auth: Auth):
    with pytest.raises(APIError) as refused:
        auth.authorize(user("<b>&"), LIST)
    assert 'User "&lt;b&gt;&amp;" cannot' in refused.value.message


def test_masters_may_do_everything(auth: Auth):
    assert allowed(auth, who=user("root", MASTERS))
    assert allowed(auth, Attributes("delete", path="/x"), who=user("root", MASTERS))


def test_the_reason_names_the_binding_the_role_and_the_subject(store: Store, auth: Auth):
    store.role("reader", rule("list", "configmaps"))
    store.bind("readers", "reader", subject("jane"))
    assert auth.authorizer.authorize(JANE, LIST) == (
        True,
        'RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to User "jane"',
    )


def test_a_role_binding_counts_in_its_namespace_only(store: Store, auth: Auth):
    store.role("reader", rule("list", "configmaps"), namespace="default")
    store.bind("readers", "reader", {"kind": "ServiceAccount", "name": "op"}, namespace="default")
    account = user("system:serviceaccount:default:op")
    assert auth.authorizer.authorize(account, LIST) == (
        True,
        'RBAC: allowed by RoleBinding "readers/default" of Role "reader" to ServiceAccount "op/default"',
    )
    assert not allowed(auth, Attributes("list", "", "v1", "configmaps", namespace="other"), account)
    assert not allowed(auth, Attributes("list", "", "v1", "configmaps"), account)


def test_a_write_is_in_force_at_once(store: Store, auth: Auth):
    assert not allowed(auth)
    store.role("reader", rule("list", "configmaps"))
    assert not allowed(auth)
    store.bind("readers", "reader", subject("jane"))
    assert allowed(auth)
    store.role("reader", rule("list", "secrets"))
    assert not allowed(auth)
    store.role("reader", rule("*", "*"))
    assert allowed(auth)
    store.delete("rbac.authorization.k8s.io", "clusterrolebindings", "", "readers")
    assert not allowed(auth)


def test_a_namespaced_write_is_in_force_at_once(store: Store, auth: Auth):
    store.role("reader", rule("list", "configmaps"), namespace="default")
    assert not allowed(auth)
    store.bind("readers", "reader", subject("jane"), namespace="default")
    assert allowed(auth)
    store.bind("readers", "reader", subject("joe"), namespace="default")
    assert not allowed(auth)
    store.bind("readers", "reader", subject("jane"), namespace="default")
    store.delete("rbac.authorization.k8s.io", "roles", "default", "reader")
    assert not allowed(auth)


@pytest.mark.parametrize(
    ("given", "attributes", "expected"),
    [
        (rule("get", "pods"), Attributes("get", "", "v1", "pods", "log"), False),
        (rule("get", "pods/log"), Attributes("get", "", "v1", "pods", "log"), True),
        (rule("get", "*/log"), Attributes("get", "", "v1", "pods", "log"), True),
        (rule("get", "*/log"), Attributes("get", "", "v1", "pods"), False),
        (rule("get", "*"), Attributes("get", "", "v1", "pods", "log"), True),
        (rule("*", "pods", "*"), Attributes("watch", "apps", "v1", "pods"), True),
        (rule("get", "pods"), Attributes("get", "apps", "v1", "pods"), False),
        (rule("get", "pods", names="a b"), Attributes("get", "", "v1", "pods", name="b"), True),
        (rule("get", "pods", names="a b"), Attributes("get", "", "v1", "pods", name="c"), False),
        (rule("create", "pods", names="a"), Attributes("create", "", "v1", "pods"), False),
    ],
)
def test_a_rule_allows_what_it_says(store: Store, auth: Auth, given: dict, attributes: Attributes, expected: bool):
    store.role("some", given)
    store.bind("some", "some", subject("jane"))
    assert allowed(auth, attributes) is expected


def test_names_of_several_rules_add_up(store: Store, auth: Auth):
    store.role("a", rule("get", "pods", names="one"), rule("get", "pods", names="two"))
    store.bind("a", "a", subject("jane"))
    for name, expected in (("one", True), ("two", True), ("three", False)):
        assert allowed(auth, Attributes("get", "", "v1", "pods", name=name)) is expected


@pytest.mark.parametrize(
    ("urls", "path", "expected"),
    [
        (["/healthz"], "/healthz", True),
        (["/healthz"], "/healthz/etcd", False),
        (["/healthz/*"], "/healthz/etcd", True),
        (["/api*"], "/apis", True),
        (["*"], "/anything", True),
    ],
)
def test_paths_match_exactly_or_by_a_star_at_the_end(store: Store, auth: Auth, urls: list, path: str, expected: bool):
    store.role("paths", {"verbs": ["get"], "nonResourceURLs": urls})
    store.bind("paths", "paths", subject("jane"))
    assert allowed(auth, Attributes("get", path=path)) is expected


def test_bindings_to_missing_roles_are_told(store: Store, auth: Auth):
    store.bind("a", "nope", subject("jane"), namespace="default")
    assert auth.authorizer.authorize(JANE, LIST) == (
        False,
        'RBAC: role.rbac.authorization.k8s.io "nope" not found',
    )
    store.bind("b", "gone", subject("jane"), namespace="default", kind="ClusterRole")
    assert auth.authorizer.authorize(JANE, LIST)[1] == (
        'RBAC: [role.rbac.authorization.k8s.io "nope" not found, '
        'clusterrole.rbac.authorization.k8s.io "gone" not found]'
    )


def test_a_fresh_cluster_lets_everybody_see_its_version_and_users_discover(fresh: Auth):
    assert allowed(fresh, Attributes("get", path="/version"), ANONYMOUS)
    assert allowed(fresh, Attributes("get", path="/healthz"), ANONYMOUS)
    assert not allowed(fresh, Attributes("get", path="/apis"), ANONYMOUS)
    assert allowed(fresh, Attributes("get", path="/apis/apps/v1"))


def test_aggregation_gathers_each_rule_once_by_name_of_role():
    labels = {"to-admin": "yes"}
    roles = [
        {"metadata": {"name": "z", "labels": labels}, "rules": [rule("get", "pods")]},
        {"metadata": {"name": "a", "labels": labels}, "rules": [rule("list", "pods"), rule("get", "pods")]},
        {"metadata": {"name": "other"}, "rules": [rule("*", "*")]},
        {"metadata": {"name": "admin", "labels": labels}, "rules": [rule("*", "secrets")]},
    ]
    gathered = aggregate({"clusterRoleSelectors": [{"matchLabels": labels}]}, "admin", roles)
    assert gathered == [rule("list", "pods"), rule("get", "pods")]


def test_a_decision_is_made_once(fresh: Auth, monkeypatch: pytest.MonkeyPatch):
    """Each request is authorized: decisions are cached until a role or binding changes."""
    decide, decided = fresh.authorizer._decide, []
    monkeypatch.setattr(fresh.authorizer, "_decide", lambda *asked: decided.append(asked) or decide(*asked))
    asked = Attributes("create", "authorization.k8s.io", "v1", "selfsubjectaccessreviews")
    answers = {fresh.authorizer.authorize(JANE, asked) for _ in range(100)}
    assert len(answers) == len(decided) == 1
    fresh.authorizer.changed("clusterroles", "", "whatever")
    assert {fresh.authorizer.authorize(JANE, asked)} == answers
    assert len(decided) == 2
