"""The validation of Broker."""

from pathlib import Path

import yaml
from steersman.models import decode, encode

from rocketmq.api.v1.broker_types import Broker
from rocketmq.webhooks.broker_v1_validation import validate

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "rocketmq_v1_broker.yaml"


def test_a_good_one_is_accepted():
    sample = decode(Broker, encode(yaml.safe_load(SAMPLE.read_text())))
    validate(sample, None)
    validate(sample, sample)
