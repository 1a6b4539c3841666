"""A replica installs its CustomResourceDefinitions before its controllers start, with the rights that its role has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from steersman import Context, Model, ObjectMeta, Operator, Resource, run_operator
from steersman.cli.run.replica import definitions_for
from steersman.client import Client
from steersman.client.config import Config, Impersonation, load_config
from steersman.manifests import crds
from steersman.manifests.permissions.roles import rbac
from steersman.operator import Settings
from steersman.operator.crds import CrdInstallError
from steersman.operator.settings import SettingsError
from steersman.testing import ControlPlane, EmbeddedCluster

GROUP = "brings-crds.steersman.dev"
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kites.{GROUP}"
SETTINGS = Settings(
    metrics_bind_address="0",
    health_probe_bind_address="0",
    gc_tuning=False,
    shutdown_grace=5.0,
    install_crds=True,
    lease_namespace="kites-system",
)


class KiteSpec(Model):
    length: int = 1


class KiteStatus(Model):
    length: int = 0


class Kite(Resource, group=GROUP, version="v1"):
    spec: KiteSpec = KiteSpec()
    status: KiteStatus = KiteStatus()


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.realcluster())])
def env(request: pytest.FixtureRequest) -> Iterator[Any]:
    with (EmbeddedCluster if request.param == "embedded" else ControlPlane).start() as started:
        yield started


def operator_of(ran: asyncio.Event) -> Operator:
    operator = Operator("kites")

    @operator.controller
    async def reconcile(kite: Kite, ctx: Context) -> KiteStatus:
        ran.set()
        return KiteStatus(length=kite.spec.length)

    return operator


def account(env: Any, operator: Operator, *, install_crds: bool) -> Config:
    """The operator's ServiceAccount, with the roles that its manifests have."""
    for document in rbac(operator, install_crds=install_crds):
        env.apply(document)
    user = f"system:serviceaccount:{operator.name}-system:{operator.name}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{operator.name}-system", "system:authenticated")
    return replace(load_config(env.kubeconfig), impersonate=Impersonation(user, groups=groups))


async def test_definitions_are_served_before_controllers_start_with_the_rights_of_the_role(env: Any) -> None:
    ran, stop = asyncio.Event(), asyncio.Event()
    operator = operator_of(ran)
    config = account(env, operator, install_crds=True)
    for attempt in range(2):  # the second time, everything is there
        ran.clear()
        stop.clear()
        task = asyncio.create_task(run_operator(operator, config, SETTINGS, stop=stop, definitions=crds(operator)))
        async with Client(load_config(env.kubeconfig)) as client:
            while True:
                try:
                    await client.apply(
                        Kite(metadata=ObjectMeta(name=f"k{attempt}", namespace="default")), field_manager="test"
                    )
                    break
                except Exception:  # not served yet
                    assert not task.done(), task.result()
                    await asyncio.sleep(0.05)
        reconciled = asyncio.create_task(ran.wait())
        await asyncio.wait([reconciled, task], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert ran.is_set(), task
        stop.set()
        await task
        live = env.call("GET", CRD)
        if attempt == 0:
            version = live["metadata"]["resourceVersion"]
    assert live["metadata"]["resourceVersion"] == version, "a second start changes nothing"
    managers = {entry["manager"]: entry["operation"] for entry in live["metadata"]["managedFields"]}
    assert managers["kites-crds"] == "Apply"


async def test_a_missing_right_is_named_with_the_verb_and_the_way_out(env: Any) -> None:
    operator = operator_of(asyncio.Event())
    operator.name = "poor-kites"
    config = account(env, operator, install_crds=False)
    with pytest.raises(CrdInstallError) as caught:
        await run_operator(operator, config, SETTINGS, definitions=crds(operator))
    message = str(caught.value)
    named = f"customresourcedefinitions.apiextensions.k8s.io with the resource name 'kites.{GROUP}'"
    assert f"needs the verb 'patch' on {named}" in message
    assert "`steersman manifests --install-crds`" in message


async def test_definitions_that_the_api_server_refuses_are_named(env: Any) -> None:
    operator = operator_of(asyncio.Event())
    (wrong,) = crds(operator)
    wrong["metadata"]["name"] = f"kits.{GROUP}"
    with pytest.raises(CrdInstallError, match=f"CustomResourceDefinition kits.{GROUP} is refused: .*must be"):
        await run_operator(operator, load_config(env.kubeconfig), SETTINGS, definitions=[wrong])


async def test_without_definitions_the_setting_is_refused() -> None:
    with pytest.raises(SettingsError, match="definitions=crds"):
        await run_operator(operator_of(asyncio.Event()), Config.for_url("http://127.0.0.1:1"), SETTINGS)


class KiteV2(Resource, group=GROUP, version="v2", kind="Kite", storage=False):
    spec: KiteSpec = KiteSpec()
    status: KiteStatus = KiteStatus()


def converting() -> Operator:
    operator = Operator("kites")

    @operator.controller
    async def reconcile(kite: Kite, ctx: Context) -> None: ...

    @operator.converter
    def up(old: Kite) -> KiteV2:
        return KiteV2(metadata=old.metadata, spec=old.spec)

    @operator.converter
    def down(new: KiteV2) -> Kite:
        return Kite(metadata=new.metadata, spec=new.spec)

    return operator


def test_in_a_cluster_definitions_name_the_service_of_the_operator() -> None:
    config = Config.for_url("http://127.0.0.1:1", namespace="harbour")
    settings = Settings(install_crds=True, webhook_mode="cluster", webhook_cert_dir="/certificates")
    (crd,) = definitions_for(converting(), config, settings)
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["namespace"] == "harbour"
    assert crd["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "harbour/kites-webhook"}


def test_a_local_run_leaves_the_conversion_to_its_webhooks() -> None:
    config = Config.for_url("http://127.0.0.1:1")
    (crd,) = definitions_for(converting(), config, Settings(install_crds=True))
    assert "conversion" not in crd["spec"]
