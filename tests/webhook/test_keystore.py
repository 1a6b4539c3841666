"""Keys through the steps of a rotation, and their form as a Secret; injection's pure half."""

import base64
import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.models import dynamic
from steersman.pki import Authority, KeyPair, b64
from steersman.pki.certificate_facts import describe, fingerprint, key_matches, signed_by, split
from steersman.webhook.certificate_settings import CertificateSettings
from steersman.webhook.certificate_sources import context_of
from steersman.webhook.injection import Configuration, Entry, entries, patch_of
from steersman.webhook.keystore import REQUEST, CertificateSecretError, advance, data_of, keys_of, requested
from steersman.webhook.rotation import CertificateLifetimes, Create, Publish, Renew, Resign, Retire, Wait

from .certificate_environment import handshake

NOW = datetime(2026, 11, 1, tzinfo=UTC)
HOSTS = frozenset({"web.ns.svc", "10.0.0.1"})
TERMS = CertificateLifetimes()


def step(keys, action, now=NOW):
    return advance(keys, action, name="web", hosts=HOSTS, lifetimes=TERMS, now=now)


def stored(keys):
    return {"data": {key: value for key, value in data_of(keys).items() if value is not None}}


async def shows(keys, trusted):
    """Whether what one state shows verifies by the bundle of another."""
    return await handshake(context_of(keys.serving), trusted.bundle, "web.ns.svc")


async def test_every_step_can_be_verified_by_the_bundle_before_it_and_after_it():
    now = datetime.now(UTC)
    until = now + timedelta(days=1)
    first = step(None, Create(), now)
    renewed = step(first, Renew(), now)
    published = step(renewed, Publish(), now)
    resigned = step(published, Resign(until), now)
    retired = step(resigned, Retire(frozenset({first.state.authority.id})), now)
    states = [first, renewed, published, resigned, retired]
    for before, after in itertools.pairwise(states):
        assert await shows(before, after) or after is retired
        assert await shows(after, before)
    assert retired.bundle == published.successor.cert_pem


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["renew", "publish", "resign", "retire", "wait"]), max_size=8))
def test_a_secret_holds_all_there_is(words):
    keys = step(None, Create())
    for word in words:
        until = NOW + timedelta(days=3, microseconds=7)
        ids = frozenset(r.id for r in keys.state.retired)
        action = {
            "renew": Renew(),
            "publish": Publish(),
            "resign": Resign(until),
            "retire": Retire(ids),
            "wait": Wait(until),
        }[word]
        keys = step(keys, action)
        assert keys_of(stored(keys)) == keys
        assert key_matches(keys.serving)
        assert signed_by(keys.serving.cert_pem, keys.authority.cert_pem)
        assert {fingerprint(pem) for pem in split(keys.bundle)} == keys.state.trusted


def test_a_certificate_never_outlives_its_authority():
    keys = step(None, Create())
    late = step(keys, Renew(), NOW + timedelta(days=729))
    assert late.state.serving.not_after == keys.state.authority.not_after


def test_a_certificate_is_for_the_hosts_that_are_wanted():
    assert step(None, Create()).state.serving.hosts == HOSTS


def test_nobody_gets_the_key_of_a_retired_authority():
    keys = step(step(step(None, Create()), Publish()), Resign(NOW))
    old = step(None, Create()).authority.key_pem
    assert len(keys.retired) == 1
    assert all(isinstance(pem, bytes) and b"PRIVATE" not in pem for pem, _ in keys.retired)
    assert b64(old) not in data_of(keys).values()


@pytest.mark.parametrize("secret", [{}, {"data": None}, {"data": {"tls.crt": "", "tls.key": ""}}])
def test_an_empty_secret_holds_nothing(secret):
    assert keys_of(secret) is None


@pytest.mark.parametrize("key", ["tls.crt", "tls.key", "ca.crt", "ca.key", "retired.json"])
@pytest.mark.parametrize("value", ["!", b64(b"secret words"), b64(Authority.create("x").cert_pem)])
def test_a_damaged_secret_is_told_without_being_quoted(key, value):
    secret = stored(step(None, Create()))
    secret["data"][key] = value
    with pytest.raises(CertificateSecretError) as caught:
        keys_of(secret)
    assert "secret words" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_data_that_is_no_mapping_is_refused():
    with pytest.raises(CertificateSecretError, match="not a mapping"):
        keys_of({"data": ["x"]})


def test_the_annotation_asks_for_an_authority():
    assert requested({"metadata": {"annotations": {REQUEST: ""}}})
    assert not requested({"metadata": {"annotations": None}})
    assert not requested({})


# Injection.

SERVICE = ("ns", "web")
CONFIGURATION = dynamic("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", namespaced=False)


def hook(name="web", **config):
    return {"name": name, "clientConfig": {"service": {"namespace": "ns", "name": name}, **config}}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"webhooks": None},
        {"webhooks": ["x", None, {}, {"clientConfig": "x"}, {"clientConfig": {"service": "x"}}]},
        {"webhooks": [hook("other"), {"clientConfig": {"url": "https://web.ns.svc"}}]},
        {"spec": {"conversion": {"strategy": "None"}}},
        {"spec": {"conversion": {"webhook": None}}},
    ],
)
def test_what_does_not_lead_to_us_has_no_entries(body):
    assert list(entries(body, SERVICE)) == []


def test_entries_of_configurations_and_crds_are_found():
    body = {"webhooks": [hook("other"), hook(caBundle=b64(b"x")), hook(caBundle="!")]}
    assert list(entries(body, SERVICE)) == [
        Entry("/webhooks/1/clientConfig", b"x"),
        Entry("/webhooks/2/clientConfig", None),
    ]
    crd = {"spec": {"conversion": {"webhook": hook()}}}
    assert list(entries(crd, SERVICE)) == [Entry("/spec/conversion/webhook/clientConfig", None)]


def test_a_patch_names_the_version_and_changes_stale_entries_only():
    body = {"metadata": {"resourceVersion": "7"}, "webhooks": [hook(caBundle=b64(b"new")), hook(), hook("other")]}
    found = Configuration(CONFIGURATION, "web", "7", tuple(entries(body, SERVICE)))
    patched = patch_of(found, b"new").apply(body)
    assert [w["clientConfig"].get("caBundle") for w in patched["webhooks"]] == [b64(b"new"), b64(b"new"), None]
    assert [o.path for o in patch_of(found, b"new").operations] == [
        "/metadata/resourceVersion",
        "/webhooks/1/clientConfig/caBundle",
    ]


def test_there_is_no_patch_where_nothing_differs():
    found = Configuration(CONFIGURATION, "web", "7", (Entry("/webhooks/0/clientConfig", b"new"),))
    assert patch_of(found, b"new") is None


def test_an_unreadable_bundle_trusts_nobody():
    assert Entry("/x", b"nonsense").trusts() == frozenset()
    one, two = Authority.create("one").cert_pem, Authority.create("two").cert_pem
    assert Entry("/x", one + two).trusts() == {fingerprint(one), fingerprint(two)}


# Names.


def test_names_are_those_of_the_manifests():
    found = CertificateSettings(operator="web", namespace="web-system")
    assert (found.service_name, found.secret) == ("web-webhook", "web-webhook-cert")
    assert "web-webhook.web-system.svc" in found.hosts


@pytest.mark.parametrize("wrong", [{"operator": ""}, {"namespace": ""}, {"poll": 0.0}, {"poll": 61.0}])
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(ValueError, match=r"\w+"):
        CertificateSettings(**{"operator": "web", "namespace": "ns", **wrong})


def test_facts_of_what_is_no_certificate_are_refused():
    with pytest.raises(ValueError, match=r"\w+"):
        describe(b"nonsense")
    with pytest.raises(ValueError, match=r"\w+"):
        split(b"nonsense")
    assert split(b" \n") == []
    pair = Authority.create("x").pair
    assert not signed_by(pair.cert_pem, Authority.create("y").cert_pem)
    assert not key_matches(KeyPair(pair.cert_pem, Authority.create("y").pair.key_pem))
    assert base64.b64decode(b64(b"x")) == b"x"
