"""What the operator reports when the API server refuses its Deployment."""

from pathlib import Path

from steersman.testing import Fault, Match, eventually

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "apps_v1_helloapp.yaml"
QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: none}
spec: {hard: {count/deployments.apps: "0"}}
"""


def reason_of(app):
    return [condition["reason"] for condition in app.get("status", {}).get("conditions", ())]


def test_a_deployment_that_a_quota_refuses_is_reported_in_the_status_and_as_an_event(cluster, operator):
    cluster.apply(QUOTA)
    cluster.wait("resourcequota", "none", lambda quota: "hard" in quota.get("status", {}))
    running = operator("helloapp:operator")
    cluster.apply(SAMPLE)

    cluster.wait("helloapps.apps.anupam.com", "helloapp-sample", lambda app: reason_of(app) == ["DeploymentRefused"])
    (condition,) = cluster.get("helloapps.apps.anupam.com", "helloapp-sample")["status"]["conditions"]
    assert condition["status"] == "False"
    assert "exceeded quota: none" in condition["message"]
    assert "Raise the namespace's ResourceQuota" in condition["message"]
    eventually(
        lambda: "DeploymentRefused" in [event["reason"] for event in cluster.list("events.events.k8s.io")],
        what="an Event that says why",
    )
    assert [r.error for r in running.reconciles if r.error] == []


def test_a_deployment_that_a_webhook_denies_is_reported_however_it_words_its_refusal(cluster, operator, faults):
    """A webhook that gives no code denies with 400, and one may give any other."""
    denied = 'admission webhook "images.example.com" denied the request: images come from our registry'
    faults.add(Fault("answer", Match(verb="create patch", resource="deployments"), 400, "", denied))
    running = operator("helloapp:operator")
    cluster.apply(SAMPLE)

    cluster.wait("helloapps.apps.anupam.com", "helloapp-sample", lambda app: reason_of(app) == ["DeploymentRefused"])
    (condition,) = cluster.get("helloapps.apps.anupam.com", "helloapp-sample")["status"]["conditions"]
    assert denied in condition["message"]
    assert [r.error for r in running.reconciles if r.error] == []
