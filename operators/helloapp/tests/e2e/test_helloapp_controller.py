"""HelloApp end to end: `steersman run` as a process, with a real kube-apiserver."""

import pytest

from .running import PROJECT, running

SAMPLE = PROJECT / "config" / "samples" / "apps_v1_helloapp.yaml"


@pytest.mark.realcluster
def test_the_sample_becomes_ready(cluster, tmp_path):
    cluster.apply(PROJECT / "config" / "crd")
    with running(cluster.kubeconfig, tmp_path / "operator.log", "--namespace", cluster.namespace):
        (sample,) = cluster.apply(SAMPLE)
        cluster.wait("helloapps.apps.anupam.com", sample["metadata"]["name"], "Ready")
