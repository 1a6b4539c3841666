"""A user cannot grant permissions that the user does not have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.auth import MASTERS, Auth, check_escalation
from steersman_cluster.auth.attributes import Attributes
from steersman_cluster.auth.rules import allows, breakdown, missing
from steersman_cluster.errors import APIError

from .conftest import RBAC, Store, rule, subject, user

JOE = user("joe")


def role(*rules: dict, name: str = "n") -> dict:
    return {"kind": "Role", "metadata": {"name": name, "namespace": "default"}, "rules": list(rules)}


def binding(target: str, kind: str = "ClusterRole") -> dict:
    return {"metadata": {"name": "n", "namespace": "default"}, "roleRef": {"kind": kind, "name": target}}


def check(auth: Auth, resource: str, obj: dict, old: dict | None = None, who=JOE) -> None:
    namespace = "" if resource.startswith("cluster") else "default"
    check_escalation(auth.authorizer, who, resource, namespace, obj, old)


def test_what_is_missing_is_told_shortly(store: Store, auth: Auth):
    store.role("mine", rule("get", "pods"))
    store.bind("mine", "mine", subject("joe"))
    wanted = role(rule("get list", "pods secrets", names="b a"), rule("get list", "pods"))
    with pytest.raises(APIError) as refused:
        check(auth, "roles", wanted)
    assert refused.value.code == 403
    assert refused.value.message == (
        'roles.rbac.authorization.k8s.io "n" is forbidden: user "joe" (groups=["system:authenticated"]) is attempting '
        "to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["list"]}\n'
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["list"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get" "list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get" "list"]}'
    )


def test_what_one_has_one_may_grant(store: Store, auth: Auth):
    store.role("mine", rule("get", "pods"))
    store.bind("mine", "mine", subject("joe"))
    check(auth, "roles", role(rule("get", "pods", names="one")))
    with pytest.raises(APIError):
        check(auth, "clusterroles", role(rule("get", "nodes")))


def test_masters_and_who_may_escalate_may_grant_all(store: Store, auth: Auth):
    everything = role(rule("*", "*", "*"))
    check(auth, "roles", everything, who=user("root", MASTERS))
    store.role("escalate", rule("escalate", "roles", RBAC))
    store.bind("escalate", "escalate", subject("joe"))
    check(auth, "roles", everything)


def test_who_may_bind_may_bind(store: Store, auth: Auth):
    store.role("strong", rule("*", "*"))
    with pytest.raises(APIError, match="not currently held"):
        check(auth, "rolebindings", binding("strong"))
    store.role("binder", rule("bind", "clusterroles", RBAC, names="strong"))
    store.bind("binder", "binder", subject("joe"))
    check(auth, "rolebindings", binding("strong"))


def test_a_binding_to_no_role_is_not_found_under_its_own_resource(auth: Auth):
    with pytest.raises(APIError) as refused:
        check(auth, "rolebindings", binding("nope"))
    assert (refused.value.code, refused.value.message) == (
        404,
        'rolebindings.rbac.authorization.k8s.io "nope" not found',
    )


def test_aggregation_needs_everything(store: Store, auth: Auth):
    gathering = {**role(), "aggregationRule": {"clusterRoleSelectors": [{}]}}
    with pytest.raises(APIError, match="must have cluster-admin privileges to use the aggregationRule"):
        check(auth, "clusterroles", gathering)
    with pytest.raises(APIError, match="must have cluster-admin"):
        check(auth, "clusterroles", role(), old=gathering)


def test_the_garbage_collector_may_change_owners_of_any_role(auth: Auth):
    old = role(rule("*", "*"))
    new = {**old, "metadata": {**old["metadata"], "finalizers": ["x"], "managedFields": []}}
    check(auth, "roles", new, old=old)
    with pytest.raises(APIError):
        check(auth, "roles", {**new, "metadata": {**new["metadata"], "labels": {"a": "b"}}}, old=old)


rules = st.fixed_dictionaries(
    {
        "verbs": st.lists(st.sampled_from(["*", "get", "list"]), min_size=1, max_size=2),
        "apiGroups": st.lists(st.sampled_from(["*", "", "apps"]), min_size=1, max_size=2),
        "resources": st.lists(st.sampled_from(["*", "pods", "pods/log", "*/log"]), min_size=1, max_size=2),
    },
    optional={"resourceNames": st.lists(st.sampled_from(["a", "b"]), max_size=2)},
)
asked = st.builds(
    Attributes,
    st.sampled_from(["get", "list", "delete"]),
    st.sampled_from(["", "apps", "batch"]),
    st.just("v1"),
    st.sampled_from(["pods", "secrets"]),
    st.sampled_from(["", "log", "status"]),
    st.just(""),
    st.sampled_from(["", "a", "c"]),
)


@given(st.lists(rules, max_size=3), st.lists(rules, max_size=3), asked)
def test_what_is_covered_is_allowed(owned: list, wanted: list, attributes: Attributes):
    if not missing(owned, wanted) and any(allows(item, attributes) for item in wanted):
        assert any(allows(item, attributes) for item in owned)


@given(rules, asked)
def test_a_rule_broken_down_allows_the_same(whole: dict, attributes: Attributes):
    assert allows(whole, attributes) == any(allows(piece, attributes) for piece in breakdown(whole))


@given(rules)
def test_a_rule_covers_itself(whole: dict):
    assert missing([whole], [whole]) == []
