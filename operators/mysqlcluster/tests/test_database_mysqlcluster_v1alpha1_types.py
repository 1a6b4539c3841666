"""The kind MySQLCluster of database.example.com/v1alpha1."""

from pathlib import Path

import yaml
from steersman.models import decode, encode, info_of

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "database_v1alpha1_mysqlcluster.yaml"


def test_the_names_are_the_published_ones():
    info = info_of(MySQLCluster)
    assert (info.api_version, info.kind, info.plural) == (
        "database.example.com/v1alpha1",
        "MySQLCluster",
        "mysqlclusters",
    )


def test_the_sample_is_one_of_it():
    sample = yaml.safe_load(SAMPLE.read_text())
    assert (sample["apiVersion"], sample["kind"]) == ("database.example.com/v1alpha1", "MySQLCluster")
    decoded = decode(MySQLCluster, encode(sample))
    assert decode(MySQLCluster, encode(decoded)) == decoded
