"""NameService as its users meet it: `steersman run` as a process of its own, beside a real kube-apiserver."""

import pytest

from .running import PROJECT, running

SAMPLE = PROJECT / "config" / "samples" / "rocketmq_v1_nameservice.yaml"


@pytest.mark.realcluster
def test_the_sample_becomes_available(cluster, tmp_path):
    cluster.apply(PROJECT / "config" / "crd")
    with running(cluster.kubeconfig, tmp_path / "operator.log", "--namespace", cluster.namespace):
        (sample,) = cluster.apply(SAMPLE)
        cluster.wait("nameservices.rocketmq.daocloud.io", sample["metadata"]["name"], "Available")
