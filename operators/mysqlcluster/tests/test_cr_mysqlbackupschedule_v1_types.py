"""The kind MySQLBackupSchedule of cr.mysqloperator.grtl.github.com/v1."""

from pathlib import Path

import yaml
from steersman.models import decode, encode, info_of

from mysqlcluster.api.cr.v1.mysqlbackupschedule_types import MySQLBackupSchedule

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "cr_v1_mysqlbackupschedule.yaml"


def test_the_names_are_the_published_ones():
    info = info_of(MySQLBackupSchedule)
    assert (info.api_version, info.kind, info.plural) == (
        "cr.mysqloperator.grtl.github.com/v1",
        "MySQLBackupSchedule",
        "mysqlbackupschedules",
    )


def test_the_sample_is_one_of_it():
    sample = yaml.safe_load(SAMPLE.read_text())
    assert (sample["apiVersion"], sample["kind"]) == ("cr.mysqloperator.grtl.github.com/v1", "MySQLBackupSchedule")
    decoded = decode(MySQLBackupSchedule, encode(sample))
    assert decode(MySQLBackupSchedule, encode(decoded)) == decoded
