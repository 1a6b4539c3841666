"""The mysqlbackupinstance controller on a cluster, with the permissions that the operator declares and no others."""

from pathlib import Path

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "cr_v1_mysqlbackupinstance.yaml"


def test_the_sample_becomes_ready(cluster, operator):
    running = operator("mysqlcluster:operator")
    (sample,) = cluster.apply(SAMPLE)
    cluster.wait("mysqlbackupinstances.cr.mysqloperator.grtl.github.com", sample["metadata"]["name"], "Ready")
    running.wait_idle()
    assert [r.error for r in running.reconciles if r.error] == []
