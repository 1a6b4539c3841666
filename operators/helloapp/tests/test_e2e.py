"""HelloApp as its users meet it: `steersman run` beside a cluster, embedded by default, real with --cluster=real."""

import json

import pytest
import yaml
from steersman.k8s import Deployment
from steersman.testing import UnsupportedError

from helloapp.api.v1.helloapp_types import HelloApp

from .objects import Objects
from .running import CRD, RBAC, SAMPLE, eventually, running

APP = "helloapp-sample"


@pytest.fixture(scope="module")
def cluster(control_plane):
    Objects(control_plane.kubeconfig).apply(CRD)
    return control_plane


@pytest.fixture
def user(cluster, namespace):
    return Objects(cluster.kubeconfig, namespace)


@pytest.fixture
def operator(cluster, namespace, tmp_path):
    with running(cluster.kubeconfig, tmp_path / "operator.log", "--namespace", namespace) as replica:
        yield replica


def size_is(user, size):
    user.patch(HelloApp, APP, {"spec": {"size": size}})


def image_of(deployment):
    return deployment.spec.template.spec.containers[0].image


def test_the_sample_becomes_a_deployment_and_its_status_follows_size(user, operator):
    user.apply(SAMPLE)
    eventually(lambda: user.settled(APP, 1), what="one replica, and a status that says so")
    deployment = user.there(Deployment, APP)
    assert image_of(deployment) == "nginx:1.27"
    (owner,) = deployment.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller) == ("HelloApp", APP, True)
    for size in (3, 0, 2):
        size_is(user, size)
        eventually(lambda size=size: user.settled(APP, size), what=f"{size} replicas")


def test_scaling_works_through_the_scale_subresource(user, operator):
    user.apply(SAMPLE)
    user.scale(HelloApp, APP, 2)
    eventually(lambda: user.settled(APP, 2), what="two replicas")


def test_a_deleted_deployment_returns(user, operator):
    user.apply(SAMPLE)
    eventually(lambda: user.settled(APP, 1), what="one replica")
    uid = user.there(Deployment, APP).metadata.uid
    user.delete(Deployment, APP)
    eventually(
        lambda: user.settled(APP, 1) and user.there(Deployment, APP).metadata.uid != uid,
        what="a new Deployment with one replica",
    )


def test_drift_of_the_deployment_is_corrected_in_both_directions(user, operator):
    user.apply(SAMPLE)
    size_is(user, 2)
    eventually(lambda: user.settled(APP, 2), what="two replicas")
    for replicas in (5, 0):
        generation = user.there(Deployment, APP).metadata.generation
        user.scale(Deployment, APP, replicas)
        eventually(
            lambda since=generation: (
                user.there(Deployment, APP).metadata.generation >= since + 2 and user.settled(APP, 2)
            ),
            what=f"two replicas again after a hand scaled to {replicas}",
        )
    broken = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "nginx:broken"}]}}}}
    user.patch(Deployment, APP, broken)
    eventually(
        lambda: image_of(user.there(Deployment, APP)) == "nginx:1.27" and user.settled(APP, 2),
        what="the image of the spec again",
    )


def test_deleting_the_app_deletes_what_it_owns(user, operator):
    user.apply(SAMPLE)
    eventually(lambda: user.settled(APP, 1), what="one replica")
    user.delete(HelloApp, APP, propagation="Foreground")
    eventually(lambda: user.get(HelloApp, APP) is None, what="no HelloApp")
    assert user.get(Deployment, APP) is None, "what it owned goes first"


@pytest.mark.slow
def test_changes_made_while_the_operator_was_killed_are_not_lost(user, cluster, namespace, tmp_path):
    user.apply(SAMPLE)
    quick = ("--namespace", namespace, "--lease-duration=3s", "--renew-deadline=2s", "--retry-period=0.5s")
    with running(cluster.kubeconfig, tmp_path / "first.log", *quick) as first:
        eventually(lambda: user.settled(APP, 1), what="one replica")
        first.kill()
    size_is(user, 3)
    user.delete(Deployment, APP)
    with running(cluster.kubeconfig, tmp_path / "second.log", *quick) as second:
        eventually(lambda: user.settled(APP, 3), what="three replicas")
        assert second.stop() == 0


def test_once_settled_the_operator_writes_nothing_more(user, cluster, namespace, tmp_path):
    """A1: applying what the cluster already has sends nothing, and A2: an unchanged status is not written."""
    who = "quiet-operator"
    kubeconfig = cluster.user_kubeconfig(who, groups=["system:masters"])
    user.apply(SAMPLE)

    def writes():
        return [e for e in cluster.audit_events(user=who) if e.is_write and e.resource in ("deployments", "helloapps")]

    with running(kubeconfig, tmp_path / "operator.log", "--namespace", namespace):
        eventually(lambda: user.settled(APP, 1), what="one replica")
        settled = len(writes())
        user.patch(HelloApp, APP, {"metadata": {"labels": {"touched": "once"}}})
        user.patch(Deployment, APP, {"metadata": {"annotations": {"touched": "once"}}})
        size_is(user, 2)
        eventually(lambda: user.settled(APP, 2), what="two replicas")
        after = writes()[settled:]
    applied = [e for e in after if e.resource == "deployments"]
    assert len(applied) == 1, f"one change of size is one write of the Deployment, not {applied}"


def test_it_works_with_no_more_than_the_roles_it_ships(user, cluster, tmp_path):
    """As its ServiceAccount, with leader election, and not one request refused."""
    user.apply(RBAC)
    kubeconfig = cluster.service_account_kubeconfig("demo-operator", namespace="demo-operator-system")
    user.apply(SAMPLE)
    with running(kubeconfig, tmp_path / "operator.log", "--lease-namespace=demo-operator-system") as replica:
        eventually(lambda: user.settled(APP, 1), what="one replica")
        user.delete(Deployment, APP)
        eventually(lambda: user.settled(APP, 1), what="one replica again")
        assert replica.stop() == 0
    who = "system:serviceaccount:demo-operator-system:demo-operator"
    refused = [f"{e.verb} {e.resource}/{e.subresource}" for e in cluster.audit_events(user=who) if e.code == 403]
    assert not refused


def test_a_second_identical_status_is_never_sent(user, cluster, namespace, tmp_path):
    """A2: every status write changed something: no two in a row have the same resourceVersion."""
    who = "status-operator"
    kubeconfig = cluster.user_kubeconfig(who, groups=["system:masters"])
    user.apply(SAMPLE)
    with running(kubeconfig, tmp_path / "operator.log", "--namespace", namespace):
        eventually(lambda: user.settled(APP, 1), what="one replica")
    written = [e for e in cluster.audit_events(user=who, resource="helloapps") if e.subresource == "status"]
    assert written
    assert all(e.verb == "patch" and e.code in (200, 409) for e in written)


def test_the_sample_is_the_published_one():
    assert yaml.safe_load(SAMPLE.read_text())["spec"] == {"image": "nginx:1.27", "size": 1}


class TestWithKubectl:
    """What users type, where there is a kubectl."""

    @pytest.fixture
    def kubectl(self, cluster, namespace):
        def call(*words):
            return cluster.kubectl("-n", namespace, *words)

        try:
            call("version", "--client")
        except UnsupportedError as problem:
            pytest.skip(str(problem))
        return call

    def test_apply_scale_wait_get_and_delete(self, kubectl, user, operator):
        assert "created" in kubectl("apply", "-f", str(SAMPLE))
        assert "scaled" in kubectl("scale", "helloapp", APP, "--replicas=2")
        kubectl("wait", "--for=jsonpath={.status.readyReplicas}=2", f"helloapp/{APP}", "--timeout=30s")
        kubectl("wait", "--for=condition=Ready", f"ha/{APP}", "--timeout=30s")
        header, row = kubectl("get", "ha").splitlines()
        assert header.split()[:3] == ["NAME", "SIZE", "READY"]
        assert row.split()[:3] == [APP, "2", "2"]
        assert json.loads(kubectl("get", "deployment", APP, "-o", "json"))["spec"]["replicas"] == 2
        kubectl("delete", "helloapp", APP, "--cascade=foreground", "--timeout=60s")
        assert user.get(Deployment, APP) is None

    def test_a_hand_on_the_deployment_is_corrected(self, kubectl, user, operator):
        kubectl("apply", "-f", str(SAMPLE))
        eventually(lambda: user.settled(APP, 1), what="one replica")
        kubectl("set", "image", f"deployment/{APP}", "app=nginx:broken")
        eventually(lambda: image_of(user.there(Deployment, APP)) == "nginx:1.27", what="the image of the spec again")
        kubectl("rollout", "status", f"deployment/{APP}", "--timeout=30s")
