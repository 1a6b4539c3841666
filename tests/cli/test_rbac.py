"""`steersman rbac`: what an operator did, by the audit log, against what its manifests allow."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.cli.dispatch import run
from steersman.manifests.permissions.audit_usage import (
    AuditLogError,
    ObservedRequest,
    compare_use,
    observed_requests,
    read_events,
)
from steersman.manifests.permissions.grants import Grant, Request

APP = """
from steersman import Context, Model, ObjectMeta, Operator, Resource
from steersman.k8s import ConfigMap, Secret


class SiteSpec(Model):
    colour: str = "blue"


class Site(Resource, group="rbac.steersman.dev", version="v1"):
    spec: SiteSpec = SiteSpec()


operator = Operator("sites")
operator.permit("get", Secret, names=["ca"])


@operator.controller(owns=[ConfigMap])
async def reconcile(site: Site, ctx: Context) -> None:
    metadata = ObjectMeta(name=site.metadata.name, namespace=site.metadata.namespace)
    await ctx.apply(ConfigMap(metadata=metadata, data={"colour": site.spec.colour}))
"""
ACCOUNT = "system:serviceaccount:sites-system:sites"


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delitem(sys.modules, "sites_under_test", raising=False)
    (tmp_path / "sites_under_test.py").write_text(APP)

    def call(*words):
        with pytest.raises(SystemExit) as ended:
            run(["rbac", "sites_under_test:operator", *map(str, words)])
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    yield call
    sys.modules.pop("sites_under_test", None)


def test_the_role_for_installing_crds_is_counted_when_asked_for(command):
    right = "get, patch customresourcedefinitions.apiextensions.k8s.io named sites.rbac.steersman.dev  (sites-crds)"
    assert right in command("--install-crds")[1]
    assert "customresourcedefinitions" not in command()[1]


def event(verb, resource="", *, group="", namespace="team-a", name="", user=ACCOUNT, code=200, **more):
    event.number += 1
    plural, _, sub = resource.partition("/")
    found = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Event",
        "auditID": str(event.number),
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": "/apis/…",
        "user": {"username": user},
        "responseStatus": {"code": code},
        "annotations": {"authorization.k8s.io/decision": "forbid" if code == 403 else "allow"},
    }
    if resource:
        ref = {"resource": plural, "apiGroup": group, "namespace": namespace, "name": name, "subresource": sub}
        found["objectRef"] = {key: value for key, value in ref.items() if value}
    return {**found, **more}


event.number = 0


def log(path, *events):
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    return path


def test_permissions_are_listed_by_role(command):
    code, out, _ = command()
    assert code == 0
    assert "get secrets named ca  (sites)\n" in out
    assert "create, delete, get, list, patch, watch configmaps  (sites)\n" in out
    assert "create, get, patch leases.coordination.k8s.io in sites-system  (sites-leader-election)\n" in out


def test_what_is_missing_and_what_is_never_used_are_named(command, tmp_path):
    path = log(
        tmp_path / "audit.log",
        event("list", "sites", group="rbac.steersman.dev", namespace=""),
        event("patch", "configmaps", name="home", code=201),
        event("get", "pods", name="a", code=403),
        event("get", "pods", name="b", code=403),
        event("get", user="someone"),
    )

    code, out, _ = command("--from-audit", path)

    assert code == 1
    assert "1 permission is missing:\n  get pods in team-a  (2 requests, 2 refused; for a, b)\n" in out
    assert 'operator.permit("get", <kind of pods>)' in out
    assert "  get, watch sites.rbac.steersman.dev  (sites)\n" in out
    assert "  delete, get, list, watch configmaps  (sites)\n" in out
    assert "not visible in an audit log, so not compared:\n  update sites.rbac.steersman.dev/finalizers" in out
    assert out.endswith(f"compared with 4 requests of {ACCOUNT}\n")


def test_a_refused_create_of_an_apply_is_missing_although_the_patch_is_allowed():
    message = 'configmaps "home" is forbidden: User "x" cannot create resource "configmaps" in API group ""'
    refused = event("patch", "configmaps", name="home", code=403, responseStatus={"code": 403, "message": message})
    refused["annotations"] = {"authorization.k8s.io/decision": "allow"}

    found = compare_use(observed_requests([refused], lambda user: True), [Grant("patch", resource="configmaps")])

    assert [str(m.request) for m in found.missing] == ["create configmaps in team-a"]
    assert found.missing[0].refused == 1


def test_json_has_both_sides(command, tmp_path):
    path = log(tmp_path / "audit.log", event("get", "secrets", name="ca"), event("get", "secrets", name="other"))
    code, out, _ = command("--from-audit", path, "--output", "json")
    found = json.loads(out)
    assert code == 1
    assert found["missing"] == [
        {
            "verb": "get",
            "group": "",
            "resource": "secrets",
            "namespace": "team-a",
            "names": ["other"],
            "requests": 1,
            "refused": 0,
        }
    ]
    assert {"verb": "delete", "group": "", "resource": "configmaps", "namespace": "", "names": [], "role": "sites"} in (
        found["unused"]
    )
    assert found["users"] == [ACCOUNT]


def test_unused_permissions_fail_only_when_that_is_asked_for(command, tmp_path):
    path = log(tmp_path / "audit.log", event("get", "secrets", name="ca"))
    assert command("--from-audit", path)[0] == 0
    assert command("--from-audit", path, "--strict")[0] == 1


def test_the_namespace_of_the_log_is_where_the_operator_runs(command, tmp_path):
    mine = "system:serviceaccount:elsewhere:sites"
    lease = event("get", "leases", group="coordination.k8s.io", namespace="elsewhere", user=mine)
    assert command("--from-audit", log(tmp_path / "audit.log", lease))[0] == 0

    code, _, err = command("--from-audit", log(tmp_path / "audit.log", lease, event("get", "secrets", name="ca")))
    assert code == 2
    assert "in elsewhere, sites-system: choose one with --namespace" in err


def test_requests_of_all_namespaces_need_a_role_of_the_cluster(command, tmp_path):
    path = log(tmp_path / "audit.log", event("list", "configmaps", namespace=""))
    assert command("--from-audit", path, "--watch-namespace", "team-a")[0] == 1
    path = log(tmp_path / "audit.log", event("list", "configmaps"))
    assert command("--from-audit", path, "--watch-namespace", "team-a")[0] == 0


def test_what_everybody_may_do_is_not_missing(command, tmp_path):
    review = event("create", "selfsubjectaccessreviews", group="authorization.k8s.io", namespace="")
    path = log(tmp_path / "audit.log", event("get", requestURI="/apis?timeout=32s"), review)
    assert command("--from-audit", path)[0] == 0


def test_lists_of_events_are_read_from_stdin(command, monkeypatch):
    import io

    items = [event("get", "secrets", name="ca")]
    document = {"apiVersion": "audit.k8s.io/v1", "kind": "EventList", "items": items}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(document)))
    code, out, _ = command("--from-audit", "-")
    assert code == 0
    assert "compared with 1 request of" in out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("nonsense\n", "audit.log:1: not JSON"),
        ('{"kind": "Event"}\n', "audit.log:1: not an audit.k8s.io/v1 Event"),
        ("", "no request of a ServiceAccount 'sites'"),
        (json.dumps(event("get", "pods", user="dev")), "it has those of dev: name one with --user"),
        ("\udcff", "not text"),
        (None, "No such file"),
    ],
)
def test_a_log_that_makes_no_sense_is_told(command, tmp_path, content, words):
    path = tmp_path / "audit.log"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    code, _, err = command("--from-audit", path)
    assert code == 2
    assert words in err


def test_a_line_that_is_still_being_written_is_left_out():
    whole = json.dumps(event("get", "pods"))
    assert len(list(read_events([f"{whole}\n", whole[:20]]))) == 1
    with pytest.raises(AuditLogError, match="audit log:2"):
        list(read_events([f"{whole}\n", f"{whole[:20]}\n"]))


def test_a_watch_counts_once_and_impersonation_is_a_permission():
    started = {**event("watch", "pods"), "stage": "ResponseStarted"}
    acting = event("get", "pods", impersonatedUser={"username": "system:serviceaccount:ns:other"})
    seen = list(
        observed_requests([started, {**started, "stage": "ResponseComplete"}, acting], lambda user: user == ACCOUNT)
    )
    assert [str(one.request) for one in seen] == ["watch pods in team-a", "impersonate serviceaccounts in ns"]


WORDS = st.sampled_from(["", "a", "b", "*"])
GRANTS = st.builds(
    Grant,
    verb=st.sampled_from(["get", "list", "*"]),
    group=WORDS,
    resource=st.sampled_from(["x", "y", "x/status", "*/status", "*"]),
    namespace=st.sampled_from(["", "n"]),
    names=st.sampled_from([(), ("one",)]),
)
REQUESTS = st.builds(
    Request,
    verb=st.sampled_from(["get", "list"]),
    group=st.sampled_from(["", "a", "b"]),
    resource=st.sampled_from(["x", "y", "x/status"]),
    namespace=st.sampled_from(["", "n", "m"]),
    name=st.sampled_from(["", "one", "two"]),
)


@given(st.lists(REQUESTS), st.lists(GRANTS, unique=True))
def test_a_request_is_missing_or_uses_a_grant_and_a_grant_is_used_or_idle(requests, grants):
    found = compare_use([ObservedRequest(ACCOUNT, request, allowed=True) for request in requests], grants)
    idle = {*found.unused, *found.unseen}
    for request in requests:
        allowing = [grant for grant in grants if grant.allows(request)]
        assert bool(allowing) != any(
            m.request.resource == request.resource and _same(m, request) for m in found.missing
        )
        assert not idle.intersection(allowing)
    assert all(any(grant.allows(request) for request in requests) for grant in set(grants) - idle)


def _same(missing, request):
    mine = (request.verb, request.group, request.resource, request.namespace)
    theirs = (missing.request.verb, missing.request.group, missing.request.resource, missing.request.namespace)
    return mine == theirs and (not request.name or request.name in missing.names)


def test_an_operator_that_ran_under_its_generated_identity_lacks_nothing(command, cluster, operator, tmp_path):
    """The whole way: the embedded cluster's own audit log, of a run with just the generated rights."""
    sys.path.insert(0, str(tmp_path))
    running = operator("sites_under_test:operator")
    cluster.apply(
        "apiVersion: rbac.steersman.dev/v1\nkind: Site\nmetadata: {name: home}\nspec: {colour: red}\n",
    )
    cluster.wait("configmap", "home", "created")
    running.wait_idle()

    path = log(tmp_path / "audit.log", *(dict(e.raw) for e in cluster.audit.calls()))
    code, out, err = command(
        "--from-audit", path, "--watch-namespace", cluster.namespace, "--namespace", cluster.namespace, "-o", "json"
    )

    assert code == 0, out + err
    found = json.loads(out[out.index("{\n") :])  # the cluster logs to the same place
    assert found["missing"] == []
    used = {(g["verb"], g["resource"]) for g in found["unused"]}
    assert ("patch", "configmaps") not in used
    assert ("create", "configmaps") not in used
    assert ("delete", "configmaps") in used
