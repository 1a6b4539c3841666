"""The kind RocketMQCluster of rocketmq.daocloud.io/v1."""

from pathlib import Path

import yaml
from steersman.models import decode, encode, info_of

from rocketmq.api.v1.rocketmqcluster_types import RocketMQCluster

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "rocketmq_v1_rocketmqcluster.yaml"


def test_the_names_are_the_published_ones():
    info = info_of(RocketMQCluster)
    assert (info.api_version, info.kind, info.plural) == (
        "rocketmq.daocloud.io/v1",
        "RocketMQCluster",
        "rocketmqclusters",
    )


def test_the_sample_is_of_this_kind():
    sample = yaml.safe_load(SAMPLE.read_text())
    assert (sample["apiVersion"], sample["kind"]) == ("rocketmq.daocloud.io/v1", "RocketMQCluster")
    decoded = decode(RocketMQCluster, encode(sample))
    assert decode(RocketMQCluster, encode(decoded)) == decoded
