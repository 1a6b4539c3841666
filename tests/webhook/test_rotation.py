"""The decisions of a rotation, without keys: each step and its condition, and states that never occur."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from steersman.webhook.rotation import (
    CertificateLifetimes,
    CertificateState,
    Create,
    Issuer,
    Observation,
    Publish,
    Renew,
    Resign,
    Restore,
    Retire,
    Retired,
    ServingCertificate,
    Wait,
    decide,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HOSTS = frozenset({"web-webhook.web-system.svc"})
TERMS = CertificateLifetimes()
FRESH = CertificateState(Issuer("a", NOW + 730 * DAY), ServingCertificate("a", NOW + 90 * DAY, HOSTS))
ROTATING = replace(FRESH, successor=Issuer("b", NOW + 900 * DAY))


def next_step(state, now=NOW, hosts=HOSTS, **observation):
    return decide(state, Observation(now=now, **observation), hosts, TERMS)


def test_nothing_there_is_created():
    assert next_step(None) == Create()


def test_what_a_process_remembers_is_written_down_again():
    assert next_step(None, content_known=True) == Restore()


def test_a_fresh_certificate_waits_until_two_thirds_of_its_life():
    assert next_step(FRESH) == Wait(NOW + 60 * DAY)


def test_a_certificate_is_renewed_at_two_thirds_of_its_life():
    assert next_step(FRESH, NOW + 60 * DAY) == Renew()


def test_an_expired_certificate_is_renewed():
    assert next_step(FRESH, NOW + 91 * DAY) == Renew()


def test_other_hosts_need_another_certificate():
    assert next_step(FRESH, hosts=HOSTS | {"other"}) == Renew()


def test_a_certificate_of_an_unknown_issuer_is_replaced():
    assert next_step(replace(FRESH, serving=ServingCertificate("", NOW + 90 * DAY, HOSTS))) == Renew()


def test_a_renewal_that_would_end_no_later_is_left():
    state = CertificateState(Issuer("a", NOW + 90 * DAY), ServingCertificate("a", NOW + 90 * DAY, HOSTS))
    assert next_step(state, NOW + 70 * DAY) == Publish()


def test_an_authority_gets_a_successor_at_two_thirds_of_its_life():
    late = replace(FRESH, serving=ServingCertificate("a", NOW + 570 * DAY, HOSTS))
    assert next_step(late, NOW + 487 * DAY) == Publish()


def test_a_successor_is_made_on_request():
    assert next_step(FRESH, requested=True) == Publish()


def test_requests_do_not_grow_the_bundle_without_bound():
    crowded = replace(FRESH, retired=tuple(Retired(str(n), NOW + DAY) for n in range(7)))
    assert isinstance(next_step(crowded, requested=True), Wait)


@pytest.mark.parametrize("carried", [None, timedelta(0), TERMS.propagation - timedelta(seconds=1)])
def test_a_successor_signs_nothing_before_every_configuration_has_carried_it_for_a_while(carried):
    assert isinstance(next_step(ROTATING, injected_for=carried), Wait)


def test_a_settled_successor_signs_and_the_old_authority_stays_for_what_it_signed():
    assert next_step(ROTATING, injected_for=TERMS.propagation) == Resign(NOW + 90 * DAY + TERMS.skew)


def test_an_old_authority_leaves_when_nothing_of_it_can_be_shown():
    state = replace(FRESH, retired=(Retired("x", NOW), Retired("y", NOW + DAY)))
    assert next_step(state, stored_for=TERMS.propagation) == Retire(frozenset({"x"}))


def test_an_old_authority_stays_while_this_process_has_only_just_seen_the_new_one():
    state = replace(FRESH, retired=(Retired("x", NOW - DAY),))
    assert isinstance(next_step(state, stored_for=timedelta(0)), Wait)


@pytest.mark.parametrize(
    "lifetimes",
    [
        {"propagation": timedelta(0)},
        {"skew": timedelta(seconds=-1)},
        {"serving_lifetime": timedelta(minutes=5)},
        {"authority_lifetime": timedelta(days=100)},
    ],
)
def test_terms_that_contradict_each_other_are_refused(lifetimes):
    with pytest.raises(ValueError, match=r"\w+"):
        CertificateLifetimes(**lifetimes)
