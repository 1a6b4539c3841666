"""The validation of NameService."""

from pathlib import Path

import yaml
from steersman.models import decode, encode

from rocketmq.api.v1.nameservice_types import NameService
from rocketmq.webhooks.nameservice_v1_validation import validate

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "rocketmq_v1_nameservice.yaml"


def test_a_good_one_is_accepted():
    sample = decode(NameService, encode(yaml.safe_load(SAMPLE.read_text())))
    validate(sample, None)
    validate(sample, sample)
