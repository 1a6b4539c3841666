"""Webhooks in cluster mode: the certificate, the permissions of the manifests, and the errors."""

import asyncio

import pytest

from steersman import DeniedError, Operator
from steersman.client.config import load_config
from steersman.k8s import ConfigMap
from steersman.manifests.permissions.roles import rbac
from steersman.operator import Settings
from steersman.operator.run import Replica
from steersman.operator.settings import SettingsError


def refusing(name):
    operator = Operator(name)

    @operator.validator
    async def refuse(new: ConfigMap) -> None:
        raise DeniedError("no")

    return operator


def settings(namespace, **more):
    values = {
        "leader_elect": False,
        "lease_namespace": namespace,
        "metrics_bind_address": "0",
        "health_probe_bind_address": "0",
        "webhook_bind_address": "127.0.0.1:0",
        "webhook_mode": "cluster",
    }
    return Settings(**{**values, **more})


async def test_an_operator_without_the_role_says_which_one_it_needs(cluster):
    path = cluster.service_account_kubeconfig("poor", namespace=cluster.namespace)
    replica = Replica(refusing("poor"), load_config(path), settings(cluster.namespace))
    with pytest.raises(SettingsError, match=rf"Secret {cluster.namespace}/poor-webhook-cert cannot be read .* Role"):
        await replica.run(asyncio.Event())


@pytest.mark.parametrize(
    "wrong",
    [
        {"webhook_cert_settle": 0.0},
        {"webhook_cert_life": 60.0},
        {"webhook_cert_life": 1e12},
        {"webhook_cert_life": 1e300},
    ],
)
async def test_terms_that_cannot_work_are_refused(cluster, wrong):
    replica = Replica(refusing("web"), cluster.config, settings(cluster.namespace, **wrong))
    with pytest.raises(SettingsError, match="webhook-cert"):
        await replica.run(asyncio.Event())


def test_the_roles_name_one_secret_and_the_operators_own_configurations():
    made = rbac(refusing("web"), webhook_certificates=True)
    found = {(o["kind"], o["metadata"].get("namespace")): o for o in made if "webhook" in o["metadata"]["name"]}
    role, wide = found["Role", "web-system"], found["ClusterRole", None]
    named = {(r["resources"][0], *r.get("resourceNames", ())): r["verbs"] for r in role["rules"]}
    assert named["secrets", "web-webhook-cert"] == ["get", "patch"]
    assert named["secrets",] == ["create"]
    assert [r["resourceNames"] for r in wide["rules"]] == [["web-validating"]]
    assert ("RoleBinding", "web-system") in found
    assert ("ClusterRoleBinding", None) in found


def test_an_operator_without_webhooks_needs_no_rights_for_certificates():
    assert rbac(Operator("bare"), webhook_certificates=True) == rbac(Operator("bare"))
