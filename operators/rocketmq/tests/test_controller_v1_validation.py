"""The validation of Controller."""

from pathlib import Path

import yaml
from steersman.models import decode, encode

from rocketmq.api.v1.controller_types import Controller
from rocketmq.webhooks.controller_v1_validation import validate

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "rocketmq_v1_controller.yaml"


def test_a_good_one_is_accepted():
    sample = decode(Controller, encode(yaml.safe_load(SAMPLE.read_text())))
    validate(sample, None)
    validate(sample, sample)
