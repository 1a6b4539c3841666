"""The broker controller on a cluster, with the permissions that the operator declares and no others."""

from pathlib import Path

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "rocketmq_v1_broker.yaml"


def test_the_sample_becomes_ready(cluster, operator):
    running = operator("rocketmq:operator")
    (sample,) = cluster.apply(SAMPLE)
    cluster.wait("brokers.rocketmq.daocloud.io", sample["metadata"]["name"], "Ready")
    running.wait_idle()
    assert [r.error for r in running.reconciles if r.error] == []
