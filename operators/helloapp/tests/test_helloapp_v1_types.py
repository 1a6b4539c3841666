"""The kind HelloApp of apps.anupam.com/v1."""

from pathlib import Path

import yaml
from steersman.models import decode, encode, info_of

from helloapp.api.v1.helloapp_types import HelloApp

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "apps_v1_helloapp.yaml"


def test_the_names_are_the_published_ones():
    info = info_of(HelloApp)
    assert (info.api_version, info.kind, info.plural) == ("apps.anupam.com/v1", "HelloApp", "helloapps")


def test_the_sample_is_of_this_kind():
    sample = yaml.safe_load(SAMPLE.read_text())
    assert (sample["apiVersion"], sample["kind"]) == ("apps.anupam.com/v1", "HelloApp")
    decoded = decode(HelloApp, encode(sample))
    assert decode(HelloApp, encode(decoded)) == decoded
