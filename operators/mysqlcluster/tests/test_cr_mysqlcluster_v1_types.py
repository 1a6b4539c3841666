"""The kind MySQLCluster of cr.mysqloperator.grtl.github.com/v1."""

from pathlib import Path

import yaml
from steersman.models import decode, encode, info_of

from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "cr_v1_mysqlcluster.yaml"


def test_the_names_are_the_published_ones():
    info = info_of(MySQLCluster)
    assert (info.api_version, info.kind, info.plural) == (
        "cr.mysqloperator.grtl.github.com/v1",
        "MySQLCluster",
        "mysqlclusters",
    )


def test_the_sample_is_one_of_it():
    sample = yaml.safe_load(SAMPLE.read_text())
    assert (sample["apiVersion"], sample["kind"]) == ("cr.mysqloperator.grtl.github.com/v1", "MySQLCluster")
    decoded = decode(MySQLCluster, encode(sample))
    assert decode(MySQLCluster, encode(decoded)) == decoded
