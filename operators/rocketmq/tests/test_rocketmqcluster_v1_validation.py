"""The validation of RocketMQCluster."""

from pathlib import Path

import yaml
from steersman.models import decode, encode

from rocketmq.api.v1.rocketmqcluster_types import RocketMQCluster
from rocketmq.webhooks.rocketmqcluster_v1_validation import validate

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "rocketmq_v1_rocketmqcluster.yaml"


def test_a_good_one_is_accepted():
    sample = decode(RocketMQCluster, encode(yaml.safe_load(SAMPLE.read_text())))
    validate(sample, None)
    validate(sample, sample)
