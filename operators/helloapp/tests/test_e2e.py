"""HelloApp as its users meet it: `steersman run` and kubectl on a real control plane."""

import json

import pytest
import yaml

from .running import CRD, RBAC, SAMPLE, eventually, running

pytestmark = pytest.mark.realcluster

APP = "helloapp-sample"


@pytest.fixture
def cluster(control_plane):
    control_plane.kubectl("apply", "-f", str(CRD))
    control_plane.kubectl("wait", "--for=condition=Established", "crd/helloapps.apps.anupam.com", "--timeout=30s")
    return control_plane


class InNamespace:
    """kubectl in one namespace, with JSON read."""

    def __init__(self, cluster, namespace):
        self.cluster, self.namespace = cluster, namespace

    def __call__(self, *arguments, **options):
        return self.cluster.kubectl("-n", self.namespace, *arguments, **options)

    def get(self, *what):
        return json.loads(self("get", *what, "-o", "json", "--ignore-not-found") or "{}")

    def scale_app(self, size):
        self("patch", "helloapp", APP, "--type=merge", "-p", json.dumps({"spec": {"size": size}}))

    def settled(self, size):
        app, deployment = self.get("helloapp", APP), self.get("deployment", APP)
        pods = [
            p["metadata"]["name"] for p in self.get("pods").get("items", []) if "deletionTimestamp" not in p["metadata"]
        ]
        status = app.get("status", {})
        return (
            deployment.get("spec", {}).get("replicas") == size
            and len(pods) == size
            and status.get("pods", []) == sorted(pods)
            and status.get("readyReplicas") == size
            and status.get("observedGeneration") == app["metadata"]["generation"]
            and [c["status"] for c in status.get("conditions", []) if c["type"] == "Ready"] == ["True"]
        )


@pytest.fixture
def kubectl(cluster, namespace):
    return InNamespace(cluster, namespace)


@pytest.fixture
def operator(cluster, namespace, tmp_path):
    with running(cluster.kubeconfig, tmp_path / "operator.log", "--namespace", namespace) as replica:
        yield replica


def test_the_sample_becomes_a_deployment_and_its_status_follows_size(kubectl, operator):
    kubectl("apply", "-f", str(SAMPLE))
    eventually(lambda: kubectl.settled(1), what="one replica, and a status that says so")
    deployment = kubectl.get("deployment", APP)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1.27"
    (owner,) = deployment["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("HelloApp", APP, True)
    for size in (3, 0, 2):
        kubectl.scale_app(size)
        eventually(lambda size=size: kubectl.settled(size), what=f"{size} replicas")


def test_kubectl_scale_works_through_the_scale_subresource(kubectl, operator):
    kubectl("apply", "-f", str(SAMPLE))
    kubectl("scale", "helloapp", APP, "--replicas=2")
    eventually(lambda: kubectl.settled(2), what="two replicas")


def test_a_deleted_deployment_returns(kubectl, operator):
    kubectl("apply", "-f", str(SAMPLE))
    eventually(lambda: kubectl.settled(1), what="one replica")
    uid = kubectl.get("deployment", APP)["metadata"]["uid"]
    kubectl("delete", "deployment", APP)
    eventually(
        lambda: kubectl.settled(1) and kubectl.get("deployment", APP)["metadata"]["uid"] != uid,
        what="a new Deployment with one replica",
    )


def test_drift_of_the_deployment_is_corrected_in_both_directions(kubectl, operator):
    kubectl("apply", "-f", str(SAMPLE))
    kubectl.scale_app(2)
    eventually(lambda: kubectl.settled(2), what="two replicas")
    for replicas in ("5", "0"):
        generation = kubectl.get("deployment", APP)["metadata"]["generation"]
        kubectl("scale", "deployment", APP, f"--replicas={replicas}")
        eventually(
            lambda since=generation: (
                kubectl.get("deployment", APP)["metadata"]["generation"] >= since + 2 and kubectl.settled(2)
            ),
            what=f"two replicas again after a hand scaled to {replicas}",
        )
    kubectl("set", "image", f"deployment/{APP}", "app=nginx:broken")
    eventually(
        lambda: (
            kubectl.get("deployment", APP)["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1.27"
            and kubectl.settled(2)
        ),
        what="the image of the spec again",
    )


def test_deleting_the_app_deletes_what_it_owns(kubectl, operator):
    kubectl("apply", "-f", str(SAMPLE))
    eventually(lambda: kubectl.settled(1), what="one replica")
    kubectl("delete", "helloapp", APP, "--cascade=foreground", "--timeout=60s")
    eventually(lambda: not kubectl.get("deployment", APP), what="no Deployment")


def test_changes_made_while_the_operator_was_killed_are_not_lost(kubectl, cluster, namespace, tmp_path):
    kubectl("apply", "-f", str(SAMPLE))
    quick = ("--namespace", namespace, "--lease-duration=3s", "--renew-deadline=2s", "--retry-period=0.5s")
    with running(cluster.kubeconfig, tmp_path / "first.log", *quick) as first:
        eventually(lambda: kubectl.settled(1), what="one replica")
        first.kill()
    kubectl.scale_app(3)
    kubectl("delete", "deployment", APP)
    with running(cluster.kubeconfig, tmp_path / "second.log", *quick) as second:
        eventually(lambda: kubectl.settled(3), what="three replicas")
        assert second.stop() == 0


def test_once_settled_the_operator_writes_nothing_more(kubectl, cluster, namespace, tmp_path):
    """A1: applying what the cluster already has sends nothing, and A2: an unchanged status is not written."""
    who = "quiet-operator"
    kubeconfig = cluster.user_kubeconfig(who, groups=["system:masters"])
    kubectl("apply", "-f", str(SAMPLE))

    def writes():
        return [e for e in cluster.audit_events(user=who) if e.is_write and e.resource in ("deployments", "helloapps")]

    with running(kubeconfig, tmp_path / "operator.log", "--namespace", namespace):
        eventually(lambda: kubectl.settled(1), what="one replica")
        settled = len(writes())
        kubectl("label", "helloapp", APP, "touched=once")
        kubectl("annotate", "deployment", APP, "touched=once")
        kubectl.scale_app(2)
        eventually(lambda: kubectl.settled(2), what="two replicas")
        after = writes()[settled:]
    applied = [e for e in after if e.resource == "deployments"]
    assert len(applied) == 1, f"one change of size is one write of the Deployment, not {applied}"


def test_it_works_with_no_more_than_the_roles_it_ships(kubectl, cluster, tmp_path):
    """As its ServiceAccount, with leader election, and not one request refused."""
    cluster.kubectl("apply", "-f", str(RBAC))
    kubeconfig = cluster.service_account_kubeconfig("demo-operator", namespace="helloapp-system")
    kubectl("apply", "-f", str(SAMPLE))
    with running(kubeconfig, tmp_path / "operator.log", "--lease-namespace=helloapp-system") as replica:
        eventually(lambda: kubectl.settled(1), what="one replica")
        kubectl("delete", "deployment", APP)
        eventually(lambda: kubectl.settled(1), what="one replica again")
        assert replica.stop() == 0
    who = "system:serviceaccount:helloapp-system:demo-operator"
    refused = [f"{e.verb} {e.resource}/{e.subresource}" for e in cluster.audit_events(user=who) if e.code == 403]
    assert not refused


def test_a_second_identical_status_is_never_sent(kubectl, cluster, namespace, tmp_path):
    """A2: every status write changed something: no two in a row have the same resourceVersion."""
    who = "status-operator"
    kubeconfig = cluster.user_kubeconfig(who, groups=["system:masters"])
    kubectl("apply", "-f", str(SAMPLE))
    with running(kubeconfig, tmp_path / "operator.log", "--namespace", namespace):
        eventually(lambda: kubectl.settled(1), what="one replica")
    written = [e for e in cluster.audit_events(user=who, resource="helloapps") if e.subresource == "status"]
    assert written
    assert all(e.verb == "patch" and e.code in (200, 409) for e in written)


def test_the_sample_is_the_published_one():
    assert yaml.safe_load(SAMPLE.read_text())["spec"] == {"image": "nginx:1.27", "size": 1}
