"""The validation of TopicTransfer."""

from pathlib import Path

import yaml
from steersman.models import decode, encode

from rocketmq.api.v1.topictransfer_types import TopicTransfer
from rocketmq.webhooks.topictransfer_v1_validation import validate

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "rocketmq_v1_topictransfer.yaml"


def test_a_good_one_is_accepted():
    sample = decode(TopicTransfer, encode(yaml.safe_load(SAMPLE.read_text())))
    validate(sample, None)
    validate(sample, sample)
