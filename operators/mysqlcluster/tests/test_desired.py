"""The internal model of both API groups."""

from __future__ import annotations

import pytest
from steersman import ObjectMeta

from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLClusterSpec as CompactSpec
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import (
    MySQLCluster,
    MySQLClusterSpec,
)
from mysqlcluster.desired import SpecError, check_supported, desired, parse_storage, parse_version

META = ObjectMeta(name="db", namespace="shop")


@pytest.mark.parametrize(
    ("written", "series"),
    [(8, "8.0"), (8.0, "8.0"), ("8", "8.0"), ("8.0", "8.0"), (8.4, "8.4"), (11.8, "11.8"), ("10.11.18", "10.11.18")],
)
def test_a_version_is_a_number_or_a_string(written, series):
    assert parse_version(written) == series


@pytest.mark.parametrize("written", [True, [], {}, "latest", "8.x", "-1", "1" * 100, float("nan"), 1e300])
def test_another_version_is_refused_with_the_field(written):
    with pytest.raises(SpecError, match=r"^spec\.version: "):
        parse_version(written)


def test_both_forms_of_the_same_cluster_are_one_model():
    full = MySQLCluster(metadata=META, spec=MySQLClusterSpec(size=3, version="9.7", image="mysql:9.7", storage="2Gi"))
    compact = CompactCluster(metadata=META, spec=CompactSpec(replicas=3, image="mysql:9.7", storage="2Gi"))
    assert desired(full) == desired(compact)


def test_the_image_of_the_compact_form_tells_flavor_and_version():
    made = desired(CompactCluster(metadata=META, spec=CompactSpec(image="mirror.test:5000/mariadb:10.11.18")))
    assert (made.flavor, made.version) == ("mariadb", "10.11.18")
    assert desired(CompactCluster(metadata=META, spec=CompactSpec(image="mysql:latest"))).version == "9.7"


@pytest.mark.parametrize(
    ("flavor", "size", "acks"), [("mysql", 1, 0), ("mysql", 3, 1), ("mysql", 5, 2), ("mariadb", 5, 1)]
)
def test_half_of_the_size_acknowledges_as_far_as_the_server_can_wait(flavor, size, acks):
    made = desired(MySQLCluster(metadata=META, spec=MySQLClusterSpec(size=size, flavor=flavor)))
    assert made.ack_count(size) == acks


@pytest.mark.parametrize(
    ("spec", "flavor", "version"),
    [
        ({}, "mysql", "9.7"),
        ({"version": 8.0}, "mysql", "9.7"),
        ({"version": 8}, "mysql", "9.7"),
        ({"version": "8.4"}, "mysql", "9.7"),
        ({"version": "9.7.4"}, "mysql", "9.7.4"),
        ({"version": 11.8}, "mariadb", "11.8"),
        ({"version": "10.11.18"}, "mariadb", "10.11.18"),
        ({"image": "mirror.test/mariadb:11.8.9"}, "mariadb", "11.8.9"),
        ({"flavor": "mariadb"}, "mariadb", "11.8"),
        ({"flavor": "mysql", "version": "11.8"}, "mysql", "11.8"),
    ],
)
def test_a_version_or_an_image_of_mariadb_makes_a_cluster_of_mariadb(spec, flavor, version):
    made = desired(MySQLCluster(metadata=META, spec=MySQLClusterSpec(**spec)))
    assert (made.flavor, made.version) == (flavor, version)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"version": "5.7"}, r"^spec\.version: '5\.7': mysql is supported from 9\.7 on: set \"9\.7\""),
        ({"image": "mirror.test/mysql:8.0.36"}, r"^spec\.version: '8\.0\.36': mysql is supported from 9\.7 on"),
        ({"flavor": "mariadb", "version": "10.5"}, r"^spec\.version: '10\.5': mariadb is supported from 10\.11 on"),
    ],
)
def test_what_the_operator_cannot_run_is_refused_with_the_way_out(spec, says):
    with pytest.raises(SpecError, match=says):
        check_supported(desired(MySQLCluster(metadata=META, spec=MySQLClusterSpec(**spec))))


@pytest.mark.parametrize(
    ("spec", "image", "reason"),
    [
        ({"version": 8.0}, "steersman/mysql:9.7", "mysql 8.0 is not offered"),
        ({"image": "mysql:latest"}, "steersman/mysql:9.7", "spec.image mysql:latest has no agent"),
        ({"image": "docker.io/library/mariadb:11.8.9"}, "steersman/mariadb:11.8.9", "has no agent"),
        ({"image": "mirror.test/mariadb:11.8.9"}, "mirror.test/mariadb:11.8.9", ""),
        ({"version": "9.7"}, "steersman/mysql:9.7", ""),
    ],
)
def test_a_version_or_an_image_that_cannot_run_is_replaced_by_the_nearest_offered_one(spec, image, reason):
    made = desired(MySQLCluster(metadata=META, spec=MySQLClusterSpec(**spec)))
    check_supported(made)
    assert made.image == image
    assert reason in made.substituted
    assert bool(made.substituted) == bool(reason)


def test_storage_is_a_size_or_an_object():
    assert str(parse_storage("5Gi").size) == "5Gi"
    stored = parse_storage({"size": "5Gi", "className": "fast", "autoGrow": {"enabled": True, "max": "10Gi"}})
    assert (str(stored.size), stored.class_name, stored.auto_grow.enabled, str(stored.auto_grow.max)) == (
        "5Gi",
        "fast",
        True,
        "10Gi",
    )


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("much", "spec.storage"),
        ("-1Gi", "spec.storage"),
        (True, "spec.storage"),
        ({"size": "x"}, "spec.storage.size"),
        ({"class": "fast"}, "spec.storage.class"),
        ({"autoGrow": {"thresholdPercent": 100}}, "spec.storage.autoGrow.thresholdPercent"),
        ({"autoGrow": {"enabled": "yes"}}, "spec.storage.autoGrow.enabled"),
    ],
)
def test_another_storage_is_refused_with_the_field(written, field):
    with pytest.raises(SpecError) as problem:
        parse_storage(written)
    assert problem.value.field == field
