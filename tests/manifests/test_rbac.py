"""RBAC from declarations: all that an operator's calls need, and nothing else."""

from __future__ import annotations

from typing import Any

from steersman import Context, Model, Operator, Resource, Watch
from steersman.k8s import ClusterRole, ConfigMap, Deployment, Node, Pod, Secret
from steersman.k8s.rbac_v1 import PolicyRule
from steersman.manifests import merged, rbac, rules_for, user_roles


class RoleSpec(Model):
    size: int = 1


class RoleThing(Resource, group="rbac.example.com", version="v1"):
    spec: RoleSpec = RoleSpec()
    status: RoleSpec = RoleSpec()


class Bare(Resource, group="rbac.example.com", version="v1"):
    spec: RoleSpec = RoleSpec()


def grants(rules: list[PolicyRule]) -> dict[str, str]:
    """`group/resource[names]` to its verbs."""
    found: dict[str, str] = {}
    for rule in rules:
        for resource in rule.resources:
            key = f"{rule.api_groups[0]}/{resource}" + (
                f"[{','.join(rule.resource_names)}]" if rule.resource_names else ""
            )
            assert key not in found
            found[key] = " ".join(rule.verbs)
    return found


def operator_of(**declared: Any) -> Operator:
    operator = Operator("demo")

    @operator.controller(**declared)
    async def reconcile(thing: RoleThing, ctx: Context) -> None: ...

    return operator


EVENTS = {"events.k8s.io/events": "create patch"}
SELF = {"rbac.example.com/rolethings": "get list watch", "rbac.example.com/rolethings/status": "patch"}


def test_a_controller_reads_its_kind_writes_its_status_and_records_events() -> None:
    assert grants(rules_for(operator_of())) == EVENTS | SELF


def test_a_kind_without_status_has_none_to_write() -> None:
    operator = Operator("demo")

    @operator.controller
    async def reconcile(thing: Bare, ctx: Context) -> None: ...

    assert grants(rules_for(operator)) == EVENTS | {"rbac.example.com/bares": "get list watch"}


def test_owned_kinds_are_written_and_block_their_owners_deletion() -> None:
    assert grants(rules_for(operator_of(owns=[Deployment]))) == EVENTS | SELF | {
        "apps/deployments": "create delete get list patch watch",
        "rbac.example.com/rolethings/finalizers": "update",
    }


def test_reads_and_watches_are_read_only() -> None:
    found = grants(rules_for(operator_of(reads=[Secret], watches=[Watch(ConfigMap, to=lambda obj: None)])))
    assert found == EVENTS | SELF | {"/configmaps": "get list watch", "/secrets": "get list watch"}


def test_a_kind_that_is_owned_and_read_has_the_verbs_of_both() -> None:
    assert grants(rules_for(operator_of(owns=[Pod], reads=[Pod])))["/pods"] == "create delete get list patch watch"


def test_finalizers_patch_the_kind_itself() -> None:
    operator = operator_of()

    @operator.finalizer("example.com/clean")
    async def clean(thing: RoleThing, ctx: Context) -> None: ...

    assert grants(rules_for(operator))["rbac.example.com/rolethings"] == "get list patch watch"


def test_timers_read_what_they_declare() -> None:
    operator = operator_of()

    @operator.timer(30, reads=[Node])
    async def tick(ctx: Context) -> None: ...

    assert grants(rules_for(operator))["/nodes"] == "get list watch"


def test_names_do_not_limit_creation_which_has_none_yet() -> None:
    operator = operator_of()
    operator.permit("get create", Secret, names=["ca"])
    found = grants(rules_for(operator))
    assert found["/secrets[ca]"] == "get"
    assert found["/secrets"] == "create"


def test_permissions_for_all_make_those_for_names_superfluous() -> None:
    operator = operator_of(reads=[Secret])
    operator.permit("get patch", Secret, names=["ca"])
    found = grants(rules_for(operator))
    assert found["/secrets[ca]"] == "patch"
    assert found["/secrets"] == "get list watch"


def test_sub_resources_are_permitted_by_name() -> None:
    operator = operator_of()
    operator.permit("create", Pod, subresource="eviction")
    assert grants(rules_for(operator))["/pods/eviction"] == "create"


def test_rules_of_equal_verbs_are_one_and_their_order_does_not_matter() -> None:
    a = PolicyRule(api_groups=("apps",), resources=("deployments",), verbs=("watch", "get"))
    b = PolicyRule(api_groups=("apps",), resources=("replicasets",), verbs=("get", "watch"))
    assert merged([a, b]) == merged([b, a, b])
    assert merged([a, b]) == [
        PolicyRule(api_groups=("apps",), resources=("deployments", "replicasets"), verbs=("get", "watch"))
    ]


def test_one_star_stands_for_all_verbs() -> None:
    a = PolicyRule(api_groups=("",), resources=("pods",), verbs=("get", "*"))
    assert merged([a])[0].verbs == ("*",)


def kinds(objects: list[dict[str, Any]]) -> list[str]:
    return [f"{o['kind']} {o['metadata'].get('namespace', '')}/{o['metadata']['name']}" for o in objects]


def test_everything_is_cluster_wide_but_leader_election() -> None:
    assert kinds(rbac(operator_of())) == [
        "Namespace /demo-system",
        "ServiceAccount demo-system/demo",
        "ClusterRole /demo",
        "ClusterRoleBinding /demo",
        "Role demo-system/demo-leader-election",
        "RoleBinding demo-system/demo-leader-election",
    ]


def test_a_namespaced_operator_has_a_role_in_each_namespace() -> None:
    found = rbac(operator_of(owns=[Deployment]), namespaces=("a", "b"))
    assert kinds(found)[2:6] == ["Role a/demo", "RoleBinding a/demo", "Role b/demo", "RoleBinding b/demo"]
    assert not [o for o in found if o["kind"].startswith("Cluster")]


def test_cluster_scoped_kinds_keep_a_cluster_role_of_their_own() -> None:
    found = rbac(operator_of(reads=[Node, Pod], owns=[ClusterRole]), namespaces=("a",))
    wide = next(o for o in found if o["kind"] == "ClusterRole")
    assert [rule["resources"] for rule in wide["rules"]] == [["nodes"], ["clusterroles"]]


def test_events_about_cluster_scoped_objects_are_allowed_where_they_are_written() -> None:
    """An operator of some namespaces writes Events about objects without a namespace in `default`."""
    events = [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}]
    found = rbac(operator_of(owns=[ClusterRole]), namespaces=("a",))
    assert [o["rules"] for o in found if o["kind"] == "Role" and o["metadata"]["namespace"] == "default"] == [events]
    for other in (rbac(operator_of(owns=[ClusterRole])), rbac(operator_of(reads=[Node]), namespaces=("a",))):
        assert not [o for o in other if o["metadata"].get("namespace") == "default"]


def test_secure_metrics_need_reviews() -> None:
    names = kinds(rbac(operator_of(), secure_metrics=True))
    assert "ClusterRole /demo-metrics-auth" in names
    assert "ClusterRole /demo-metrics-reader" in names


def test_users_get_three_roles_per_kind() -> None:
    roles = {role["metadata"]["name"]: role["rules"] for role in user_roles(operator_of())}
    assert list(roles) == [f"rolethings.rbac.example.com-{who}" for who in ("admin", "editor", "viewer")]
    assert roles["rolethings.rbac.example.com-viewer"][0]["verbs"] == ["get", "list", "watch"]
