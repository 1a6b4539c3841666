"""The Pods of members and archivers pass the Pod Security level `restricted`."""

from __future__ import annotations

from typing import Any

import pytest
from steersman import ObjectMeta
from steersman.models import to_dict
from steersman.testing import CallError

from mysqlcluster import children
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import (
    BackupTarget,
    MySQLCluster,
    MySQLClusterSpec,
    PvcTarget,
)
from mysqlcluster.backup import resources
from mysqlcluster.desired import Desired, desired


def wanted(namespace: str) -> Desired:
    return desired(MySQLCluster(metadata=ObjectMeta(name="db", namespace=namespace), spec=MySQLClusterSpec(size=3)))


def created(cluster, template: Any) -> None:
    """Create a Pod of a template in a namespace that enforces the level, without storing it."""
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.patch("namespaces", cluster.namespace, level)
    spec = to_dict(template)["spec"]
    # A StatefulSet adds the volumes of its claims.
    spec["volumes"] += [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0"}, "spec": spec}
    cluster.call("POST", f"/api/v1/namespaces/{cluster.namespace}/pods?dryRun=All", pod)


def test_a_member_passes(cluster):
    created(cluster, children.stateful_set(wanted(cluster.namespace), 3).spec.template)


def test_an_archiver_passes(cluster):
    place = resources.Place(BackupTarget(pvc=PvcTarget()), "here")
    created(cluster, resources.stateful_set(wanted(cluster.namespace), place, None).spec.template)


def test_a_pod_without_the_settings_is_refused(cluster):
    template = to_dict(children.stateful_set(wanted(cluster.namespace), 3).spec.template)
    del template["spec"]["securityContext"]
    with pytest.raises(CallError, match="restricted"):
        created(cluster, template)
