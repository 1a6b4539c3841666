"""NameService as in production: `steersman run` as a separate process with a real kube-apiserver."""

import pytest

from .running import PROJECT, running

SAMPLE = PROJECT / "config" / "samples" / "rocketmq_v1_nameservice.yaml"


@pytest.mark.realcluster
def test_the_sample_becomes_available(cluster, tmp_path):
    cluster.apply(PROJECT / "config" / "crd")
    with running(cluster.kubeconfig, tmp_path / "operator.log", "--namespace", cluster.namespace):
        (sample,) = cluster.apply(SAMPLE)
        cluster.wait("nameservices.rocketmq.daocloud.io", sample["metadata"]["name"], "Available")
