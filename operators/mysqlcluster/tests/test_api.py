"""The published kinds on an API server: samples, schemas, rules, columns and the scale subresource."""

from __future__ import annotations

from pathlib import Path

import pytest
from steersman.testing import CallError

SAMPLES = sorted(
    path
    for path in (Path(__file__).parent.parent / "config" / "samples").glob("*.yaml")
    if path.stem != "kustomization"
)
DATABASE = "/apis/database.example.com/v1alpha1"
COMPACT = "/apis/cr.mysqloperator.grtl.github.com/v1"


def manifest(name: str = "db", **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "database.example.com/v1alpha1",
        "kind": "MySQLCluster",
        "metadata": {"name": name},
        "spec": spec,
    }


def create(api, body):
    path = f"{DATABASE}/namespaces/{api.namespace}/mysqlclusters"
    return api.call("POST", path, body)


def refusal(api, **spec):
    with pytest.raises(CallError) as problem:
        create(api, manifest(**spec))
    assert problem.value.status == 422
    return str(problem.value)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_applies_unchanged(api, sample):
    api.apply(sample)


@pytest.mark.parametrize(("written", "stored"), [("8.0", 8.0), ('"8.0"', "8.0")])
def test_a_version_is_a_string_or_without_quotes_a_number(api, written, stored):
    api.apply(
        f"""
        apiVersion: database.example.com/v1alpha1
        kind: MySQLCluster
        metadata: {{name: my-mysql}}
        spec:
          size: 3
          version: {written}
        """
    )
    assert api.get("mysqlclusters.database.example.com", "my-mysql")["spec"]["version"] == stored


def test_the_defaults_are_those_of_the_published_table(api):
    spec = create(api, manifest())["spec"]
    assert (spec["size"], spec.get("flavor"), spec["port"], spec["paused"]) == (1, None, 3306, False)
    assert spec["failover"] == {
        "enabled": True,
        "detectionSeconds": 2,
        "minIntervalSeconds": 60,
        "maxLagSeconds": 60,
    }
    assert spec["rejoin"] == {"errantPolicy": "Quarantine"}
    assert spec["update"]["strategy"] == "Canary"
    assert spec["update"]["canary"] == {
        "analysisSeconds": 60,
        "maxErrorRate": 0.01,
        "maxLagSeconds": 10,
        "autoRollback": True,
    }
    assert spec["autoscaling"]["targetConnectionsPercent"] == 70
    assert spec["metrics"] == {"enabled": True}


def test_kubectl_scale_changes_the_size_of_both_forms(api):
    create(api, manifest(size=1))
    api.call("POST", f"{COMPACT}/namespaces/{api.namespace}/mysqlclusters", {
        "apiVersion": "cr.mysqloperator.grtl.github.com/v1",
        "kind": "MySQLCluster",
        "metadata": {"name": "db"},
        "spec": {"replicas": 1},
    })  # fmt: skip
    api.scale("mysqlclusters.database.example.com", "db", 3)
    api.scale("mysqlclusters.cr.mysqloperator.grtl.github.com", "db", 5)
    assert api.get("mysqlclusters.database.example.com", "db")["spec"]["size"] == 3
    assert api.get("mysqlclusters.cr.mysqloperator.grtl.github.com", "db")["spec"]["replicas"] == 5


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"size": 10}, "spec.size"),
        ({"flavor": "postgres"}, "spec.flavor"),
        ({"size": 3, "replication": {"ackCount": 3}}, "ackCount must be smaller than size"),
        ({"size": 5, "flavor": "mariadb", "replication": {"ackCount": 2}}, "MariaDB waits for one acknowledgement"),
        ({"restore": {"gtid": "0-1-5"}}, "restore needs fromBackup"),
        ({"fromBackup": "b", "restore": {"gtid": "0-1-5", "pointInTime": "2026-01-01T00:00:00Z"}}, "excludes gtid"),
        ({"autoscaling": {"enabled": True}}, "minSize and maxSize are required"),
        ({"autoscaling": {"enabled": True, "minSize": 5, "maxSize": 3}}, "must not be greater than maxSize"),
        ({"backup": {"schedule": "0 3 * * *", "target": {}}}, "exactly one of pvc and s3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_spec_that_contradicts_itself_is_refused_with_the_reason(api, spec, says):
    assert says in refusal(api, **spec)


def test_the_flavor_of_existing_data_cannot_change(api):
    create(api, manifest(flavor="mariadb"))
    with pytest.raises(CallError, match="the flavor of existing data cannot change"):
        api.patch("mysqlclusters.database.example.com", "db", {"spec": {"flavor": "mysql"}})
