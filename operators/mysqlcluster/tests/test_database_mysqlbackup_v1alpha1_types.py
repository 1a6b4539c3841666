"""The kind MySQLBackup of database.example.com/v1alpha1."""

from pathlib import Path

import yaml
from steersman.models import decode, encode, info_of

from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "database_v1alpha1_mysqlbackup.yaml"


def test_the_names_are_the_published_ones():
    info = info_of(MySQLBackup)
    assert (info.api_version, info.kind, info.plural) == (
        "database.example.com/v1alpha1",
        "MySQLBackup",
        "mysqlbackups",
    )


def test_the_sample_is_one_of_it():
    sample = yaml.safe_load(SAMPLE.read_text())
    assert (sample["apiVersion"], sample["kind"]) == ("database.example.com/v1alpha1", "MySQLBackup")
    decoded = decode(MySQLBackup, encode(sample))
    assert decode(MySQLBackup, encode(decoded)) == decoded
