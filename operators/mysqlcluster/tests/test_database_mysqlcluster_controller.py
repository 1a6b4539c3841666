"""The mysqlcluster controller on a cluster, with the permissions that the operator declares and no others."""

from pathlib import Path

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "database_v1alpha1_mysqlcluster.yaml"


def test_the_sample_becomes_ready(cluster, operator):
    running = operator("mysqlcluster:operator")
    (sample,) = cluster.apply(SAMPLE)
    cluster.wait("mysqlclusters.database.example.com", sample["metadata"]["name"], "Ready")
    running.wait_idle()
    assert [r.error for r in running.reconciles if r.error] == []
