"""Certificates that replicas look after themselves, on an API server: made once, rotated, injected."""

import asyncio
import base64
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from steersman.client import Client
from steersman.client.config import load_config
from steersman.manifests.permissions.rules import certificate_rules, injection_rules
from steersman.models import MergePatch, encode
from steersman.pki import Authority, KeyPair, b64
from steersman.pki.certificate_facts import describe, split
from steersman.testing import eventually
from steersman.webhook.certificates import CertificateError
from steersman.webhook.injection import INJECT, Targets
from steersman.webhook.keystore import REQUEST

from .certificate_environment import (
    CRD,
    LEASE,
    MUTATING,
    QUICK,
    SECRET,
    VALIDATING,
    CertificateEnvironment,
    handshake,
    soon,
)


@pytest.fixture
async def env(cluster):
    async with Client(cluster.config) as client:
        made = CertificateEnvironment(client, cluster.namespace)
        yield made
        await made.end()


async def test_one_certificate_is_made_by_many_replicas_that_start_at_once(env):
    replicas = await env.started("one", "two", "three")
    assert len({r.ca_bundle for r in replicas}) == 1
    secret = await env.secret()
    assert secret.body["type"] == "kubernetes.io/tls"
    assert {"tls.crt", "tls.key", "ca.crt", "ca.key"} <= set(secret.body["data"])
    host = f"web.{env.namespace}.svc"
    for replica in replicas:
        assert await handshake(replica.context(), replica.ca_bundle, host)


async def test_the_one_that_works_holds_the_lease_and_gives_it_back(env):
    (replica,) = await env.started("one")
    lease = await env.client.get(LEASE, "web-cert", namespace=env.namespace)
    assert lease.body["spec"]["holderIdentity"] == "one"
    await replica.close()
    lease = await env.client.get(LEASE, "web-cert", namespace=env.namespace)
    assert not lease.body["spec"].get("holderIdentity")


async def test_another_replica_takes_over_from_one_that_died(env):
    (replica,) = await env.started("one")
    replica._task.cancel()  # it dies without giving its turn back
    (second,) = await env.started("two")
    before = second.ca_bundle
    await env.rotate()
    await soon(lambda: second.ca_bundle != before)


async def test_a_replica_injects_the_bundle_at_its_start_although_a_dead_one_holds_the_lease(env):
    """After a kill of its Pod, an operator is installed again: its Lease exists, and its configurations are new."""
    (replica,) = await env.started("one")
    replica._task.cancel()
    spec = {"spec": {"leaseDurationSeconds": 3600}}
    await env.client.patch(LEASE, "web-cert", MergePatch(spec), namespace=env.namespace)
    await env.configure()
    await env.configure(VALIDATING)
    (second,) = await env.started("two")
    await env.carried(second.ca_bundle)
    await env.carried(second.ca_bundle, VALIDATING)
    lease = await env.client.get(LEASE, "web-cert", namespace=env.namespace)
    assert lease.body["spec"]["holderIdentity"] == "one"


async def test_the_bundle_is_injected_into_our_own_entries_only(env):
    foreign = Authority.create("foreign").cert_pem
    await env.configure(
        entries=[
            env.entry("a"),
            env.entry("b", service="other", bundle=foreign),
            env.entry("c"),
        ]
    )
    await env.configure(VALIDATING)
    (replica,) = await env.started()
    await env.carried(replica.ca_bundle, VALIDATING)

    async def injected():
        return await env.bundles() == [replica.ca_bundle, foreign, replica.ca_bundle]

    await eventually(injected)


async def test_a_configuration_that_comes_later_or_is_reset_is_injected_again(env):
    (replica,) = await env.started()
    name = await env.configure()
    await env.carried(replica.ca_bundle)
    await env.client.patch(MUTATING, name, MergePatch({"webhooks": [env.entry("z")]}))
    await env.carried(replica.ca_bundle)


async def test_configurations_are_found_by_label(env):
    name = await env.configure(name=f"{env.name}-other", labels={INJECT: f"{env.namespace}.web"})
    targets = Targets((env.namespace, "web"), labelled=f"{env.namespace}.web")
    (replica,) = await env.started(targets=targets)
    await env.carried(replica.ca_bundle, name=name)


async def test_the_conversion_of_a_crd_is_injected(env):
    group = f"{env.namespace}.example.com"
    version = {"served": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    conversion = {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": {"namespace": env.namespace, "name": "web", "path": "/convert"}},
            "conversionReviewVersions": ["v1"],
        },
    }
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "Thing", "plural": "things"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "storage": True, **version}, {"name": "v2", "storage": False, **version}],
            "conversion": conversion,
        },
    }
    await env.client.create(body, kind=CRD)
    env.made.append((CRD, f"things.{group}"))
    (replica,) = await env.started(targets=env.targets(crds=(f"things.{group}",)))

    async def injected():
        crd = await env.client.get(CRD, f"things.{group}")
        config = crd.body["spec"]["conversion"]["webhook"]["clientConfig"]
        return base64.b64decode(config.get("caBundle") or "") == replica.ca_bundle

    await eventually(injected)


async def test_nothing_is_written_when_nothing_differs(env):
    await env.configure()
    (replica,) = await env.started()
    await env.carried(replica.ca_bundle)
    versions = [(await env.secret()).metadata.resource_version]
    versions.append((await env.client.get(MUTATING, f"{env.name}-m")).metadata.resource_version)
    for _ in range(3):
        await replica._step()
    assert versions == [
        (await env.secret()).metadata.resource_version,
        (await env.client.get(MUTATING, f"{env.name}-m")).metadata.resource_version,
    ]


async def test_a_new_authority_is_published_first_then_signs_and_the_old_one_stays(env):
    await env.configure()
    one, two = await env.started("one", "two")
    before = split(one.ca_bundle)
    await env.rotate()
    keys = await env.keys()
    after = split(keys.bundle)
    assert len(after) == 2
    assert after[1:] == before
    assert REQUEST not in ((await env.secret()).body["metadata"].get("annotations") or {})
    await soon(lambda: {one.ca_bundle, two.ca_bundle} == {keys.bundle})
    await env.carried(keys.bundle)
    for replica in (one, two):
        assert await handshake(replica.context(), after[0], f"web.{env.namespace}.svc")


async def test_an_authority_that_is_not_carried_everywhere_signs_nothing(env):
    (replica,) = await env.started()
    await replica.close()
    fresh = env.replica("two")
    fresh._injector.inject = _never
    await env.configure()
    await fresh.start()
    await env.patch_secret({"metadata": {"annotations": {REQUEST: ""}}})

    async def published():
        return (await env.keys()).successor

    await eventually(published)
    for _ in range(8):
        await fresh._step()
        await asyncio.sleep(QUICK.propagation.total_seconds() / 4)  # the result must not depend on real time
    assert (await env.keys()).successor is not None


async def _never(*_):
    return False


async def test_a_certificate_is_renewed_at_two_thirds_of_its_life_and_every_replica_shows_it(env):
    one, two = await env.started("one", "two")
    before = (await env.keys()).serving.cert_pem
    contexts = one.context(), two.context()
    env.offset = timedelta(minutes=41)

    async def renewed():
        return (await env.keys()).serving.cert_pem != before

    await eventually(renewed)
    await soon(lambda: one.context() is not contexts[0] and two.context() is not contexts[1])
    assert one.ca_bundle == two.ca_bundle


async def test_an_old_authority_leaves_when_what_it_signed_has_ended(env):
    await env.configure()
    await env.started()
    await env.rotate()
    assert len(split((await env.keys()).bundle)) == 2
    env.offset = timedelta(minutes=61)

    async def alone():
        return len(split((await env.keys()).bundle)) == 1

    await eventually(alone)
    await env.carried((await env.keys()).bundle)


async def test_other_hosts_are_signed_by_the_same_authority(env):
    (replica,) = await env.started()
    bundle = replica.ca_bundle
    await replica.close()
    (second,) = await env.started("two", more_hosts=("webhooks.example.com",))
    await soon(lambda: second._keys.state.serving.hosts >= {"webhooks.example.com"})
    assert second.ca_bundle == bundle


async def test_a_deleted_secret_is_written_down_again(env):
    (replica,) = await env.started()
    bundle = replica.ca_bundle
    await env.client.delete(SECRET, "web-cert", namespace=env.namespace)

    async def back():
        return (await env.keys()).bundle == bundle

    await eventually(back)


async def test_a_damaged_secret_is_mended_from_memory(env):
    (replica,) = await env.started()
    bundle = replica.ca_bundle
    await env.patch_secret({"data": {"ca.crt": b64(b"nonsense")}})

    async def back():
        return (await env.keys()).bundle == bundle

    await eventually(back)


async def test_an_empty_secret_that_was_prepared_is_filled(env):
    prepared = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "web-cert", "namespace": env.namespace},
    }
    await env.client.create(prepared, kind=SECRET)
    (replica,) = await env.started()
    assert (await env.keys()).bundle == replica.ca_bundle


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"tls.crt": b64(b"x"), "tls.key": b64(b"y")}, "written by another program"),
        ({"ca.key": b64(b"hidden"), "ca.crt": b64(b"hidden"), "tls.crt": "", "tls.key": ""}, "it is damaged"),
    ],
)
async def test_a_secret_that_somebody_else_wrote_is_left_alone_and_not_quoted(env, data, words):
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": "web-cert", "namespace": env.namespace},
        "data": data if "tls.crt" in data else {},
    }
    await env.client.create(body, kind=SECRET)
    before = (await env.secret()).metadata.resource_version
    with pytest.raises(CertificateError, match=words) as caught:
        await env.replica().start(5)
    assert "hidden" not in str(caught.value)
    assert (await env.secret()).metadata.resource_version == before


async def test_who_may_not_read_the_secret_is_told_what_to_apply(env, cluster):
    path = await asyncio.to_thread(cluster.service_account_kubeconfig, "poor", namespace=env.namespace)
    async with Client(load_config(path)) as client:
        with pytest.raises(CertificateError, match="Apply the Role of the manifests"):
            await env.replica(client=client).start(5)


async def test_the_derived_rules_are_enough_for_a_rotation(env, cluster):
    await env.configure()
    await env.configure(VALIDATING)
    injection = injection_rules(mutating=[f"{env.name}-m"], validating=[f"{env.name}-v"])
    path = await asyncio.to_thread(
        cluster.service_account_kubeconfig,
        "webhooks",
        namespace=env.namespace,
        rules=plain(certificate_rules("web-cert")),
        cluster_rules=plain(injection),
    )
    async with Client(load_config(path)) as client:
        replica = env.replica(client=client)
        await replica.start(20)
        await env.rotate()
        await env.carried(replica.ca_bundle, VALIDATING)
        await replica.close()


async def test_who_may_not_inject_serves_signs_with_no_new_authority_and_says_so_once(env, cluster, capfd):
    await env.configure()
    path = await asyncio.to_thread(
        cluster.service_account_kubeconfig,
        "halfway",
        namespace=env.namespace,
        rules=plain(certificate_rules("web-cert")),
    )
    async with Client(load_config(path)) as client:
        replica = env.replica(client=client)
        await replica.start(20)
        assert await handshake(replica.context(), replica.ca_bundle, f"web.{env.namespace}.svc")
        await env.patch_secret({"metadata": {"annotations": {REQUEST: ""}}})
        await soon(lambda: len(split(replica.ca_bundle)) == 2)
        await asyncio.sleep(2 * QUICK.propagation.total_seconds())  # the result must not depend on real time
        assert (await env.keys()).successor is not None
        await replica.close()
    assert capfd.readouterr().out.count("could not be injected") == 1


async def test_a_turn_that_a_dead_replica_holds_ends(env):
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "web-cert", "namespace": env.namespace},
        "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 1, "leaseTransitions": 3},
    }
    await env.client.create(lease, kind=LEASE)
    await env.started("one")
    lease = await env.client.get(LEASE, "web-cert", namespace=env.namespace)
    assert lease.body["spec"]["holderIdentity"] == "one"
    assert lease.body["spec"]["leaseTransitions"] == 4


def plain(rules):
    return [json.loads(encode(rule)) for rule in rules]


async def test_private_keys_reach_no_log_and_no_repr(env, capfd, caplog):
    await env.configure()
    (replica,) = await env.started()
    await env.rotate()
    keys = await env.keys()
    private = [keys.authority.key_pem, keys.serving.key_pem]
    serving = capfd.readouterr()
    for text in (repr(keys), repr(replica), repr(vars(replica)), serving.out, serving.err, caplog.text):
        assert "PRIVATE" not in text
        assert not any(pem.decode().splitlines()[1] in text for pem in private)


async def test_a_rotated_authority_is_valid_from_when_the_first_one_was(env):
    await env.configure()
    await env.started()
    before = describe((await env.keys()).authority.cert_pem).not_before
    env.offset = timedelta(hours=5)  # a clock that is ahead
    await env.rotate()
    keys = await env.keys()
    assert describe(keys.authority.cert_pem).not_before == before
    assert describe(keys.serving.cert_pem).not_before == before


def test_keys_of_a_pair_are_hidden():
    pair = Authority.create("x").pair
    assert "PRIVATE" not in repr(replace(pair, cert_pem=b"x"))
    assert isinstance(pair, KeyPair)
