"""MySQLSwitchover as its users meet it: `steersman run` as a process of its own, beside a real kube-apiserver."""

import pytest

from .running import PROJECT, running

SAMPLE = PROJECT / "config" / "samples" / "database_v1alpha1_mysqlswitchover.yaml"


@pytest.mark.realcluster
def test_the_sample_becomes_ready(cluster, tmp_path):
    cluster.apply(PROJECT / "config" / "crd")
    with running(cluster.kubeconfig, tmp_path / "operator.log", "--namespace", cluster.namespace):
        (sample,) = cluster.apply(SAMPLE)
        cluster.wait("mysqlswitchovers.database.example.com", sample["metadata"]["name"], "Ready")
