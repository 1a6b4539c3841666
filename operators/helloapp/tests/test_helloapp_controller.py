"""The helloapp controller on a cluster, with the permissions that the operator declares and no others."""

from pathlib import Path

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "apps_v1_helloapp.yaml"


def test_the_sample_becomes_ready(cluster, operator):
    running = operator("helloapp:operator")
    (sample,) = cluster.apply(SAMPLE)
    cluster.wait("helloapps.apps.anupam.com", sample["metadata"]["name"], "Ready")
    running.wait_idle()
    assert [r.error for r in running.reconciles if r.error] == []
