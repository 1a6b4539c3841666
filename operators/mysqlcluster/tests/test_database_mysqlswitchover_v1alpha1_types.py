"""The kind MySQLSwitchover of database.example.com/v1alpha1."""

from pathlib import Path

import yaml
from steersman.models import decode, encode, info_of

from mysqlcluster.api.database.v1alpha1.mysqlswitchover_types import MySQLSwitchover

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "database_v1alpha1_mysqlswitchover.yaml"


def test_the_names_are_the_published_ones():
    info = info_of(MySQLSwitchover)
    assert (info.api_version, info.kind, info.plural) == (
        "database.example.com/v1alpha1",
        "MySQLSwitchover",
        "mysqlswitchovers",
    )


def test_the_sample_is_one_of_it():
    sample = yaml.safe_load(SAMPLE.read_text())
    assert (sample["apiVersion"], sample["kind"]) == ("database.example.com/v1alpha1", "MySQLSwitchover")
    decoded = decode(MySQLSwitchover, encode(sample))
    assert decode(MySQLSwitchover, encode(decoded)) == decoded
