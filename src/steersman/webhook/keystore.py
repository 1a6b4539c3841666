"""The webhooks' keys and certificates as one value, how each step of a rotation changes it, and its form as a Secret.

The Secret has the keys that other tools expect (`tls.crt`, `tls.key`, `ca.crt`); `ca.crt` is the whole bundle. It is
of type kubernetes.io/tls. Pure, but for the randomness of new keys; private keys never reach a repr or an error.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, cast

import msgspec

from steersman.pki import Authority, KeyPair, b64
from steersman.pki.facts import belongs, describe, fingerprint, signed_by, split
from steersman.webhook.rotation import (
    Action,
    Create,
    Held,
    Issuer,
    Publish,
    Renew,
    Resign,
    Restore,
    Retire,
    Retired,
    Shown,
    Terms,
    Wait,
)

__all__ = ["REQUEST", "Keys", "StoreError", "advance", "data_of", "keys_of", "requested"]

REQUEST: Final = "steersman.dev/rotate-ca"
"""An annotation on the Secret that asks for a new authority; it is taken off when that has begun."""

_EARLY: Final = timedelta(hours=1)
"""A first authority is valid from so long ago, so that clocks that run behind do not matter."""


class StoreError(ValueError):
    """A Secret that does not hold what it should; says what is wrong, and never what it holds."""

    foreign = False
    """Whether somebody else has written it: then it is not ours to mend."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What the Secret holds. `retired` are certificates without their keys: those are gone."""

    authority: KeyPair
    serving: KeyPair
    successor: KeyPair | None = None
    retired: tuple[tuple[bytes, datetime], ...] = ()
    held: Held = field(init=False, repr=False, compare=False)
    """The same without keys: what `rotation.decide` looks at."""

    def __post_init__(self) -> None:
        ours, shown = describe(self.authority.cert_pem), describe(self.serving.cert_pem)
        issuer = ours.fingerprint if signed_by(self.serving.cert_pem, self.authority.cert_pem) else ""
        successor = None
        if self.successor is not None:
            theirs = describe(self.successor.cert_pem)
            successor = Issuer(theirs.fingerprint, theirs.not_after)
        held = Held(
            Issuer(ours.fingerprint, ours.not_after),
            Shown(issuer, shown.not_after, shown.hosts),
            successor,
            tuple(Retired(fingerprint(pem), until) for pem, until in self.retired),
        )
        object.__setattr__(self, "held", held)

    @property
    def bundle(self) -> bytes:
        """What every `caBundle` is to hold: the present authority, the next one, and those that are leaving."""
        pems = [self.authority.cert_pem]
        if self.successor is not None:
            pems.append(self.successor.cert_pem)
        return b"".join([*pems, *(pem for pem, _ in self.retired)])


def advance(
    keys: Keys | None, action: Action, *, name: str, hosts: frozenset[str], terms: Terms, now: datetime
) -> Keys:
    """The keys after that step; `name` is the authority's. Waiting and restoring change nothing."""
    if isinstance(action, Create) or keys is None:
        # A rotated authority is valid from when its predecessor was: a clock that once ran ahead makes nothing that
        # is "not valid yet" for the others.
        authority = _authority(name, now - _EARLY, now, terms)
        return Keys(authority, _serving(authority, name, hosts, terms, now))
    match action:
        case Renew():
            return replace(keys, serving=_serving(keys.authority, name, hosts, terms, now))
        case Publish():
            start = describe(keys.authority.cert_pem).not_before
            return replace(keys, successor=_authority(name, min(start, now - _EARLY), now, terms))
        case Resign(until):
            if keys.successor is None:
                return keys
            retired = (*keys.retired, (keys.authority.cert_pem, until))
            serving = _serving(keys.successor, name, hosts, terms, now)
            return Keys(keys.successor, serving, None, retired)
        case Retire(ids):
            return replace(keys, retired=tuple(r for r in keys.retired if fingerprint(r[0]) not in ids))
        case Wait() | Restore():
            return keys


def _authority(name: str, start: datetime, now: datetime, terms: Terms) -> KeyPair:
    # The time in the name keeps authorities apart for verifiers that look issuers up by name alone.
    common_name = f"{name[:40]} {now:%Y%m%dT%H%M%SZ}"
    return Authority.create(common_name, window=(start, now + terms.authority_life)).pair


def _serving(authority: KeyPair, name: str, hosts: frozenset[str], terms: Terms, now: datetime) -> KeyPair:
    issuer = describe(authority.cert_pem)
    window = (issuer.not_before, min(now + terms.serving_life, issuer.not_after))
    return Authority.load(authority).serving(name[:64], sorted(hosts), window=window)


# The Secret.


def data_of(keys: Keys) -> dict[str, str | None]:
    """The Secret's `data`; `None` for a key that must not be there."""
    until = {fingerprint(pem): until.isoformat() for pem, until in keys.retired}
    return {
        "tls.crt": b64(keys.serving.cert_pem),
        "tls.key": b64(keys.serving.key_pem),
        "ca.crt": b64(keys.bundle),
        "ca.key": b64(keys.authority.key_pem),
        "next-ca.key": b64(keys.successor.key_pem) if keys.successor else None,
        "retired.json": b64(msgspec.json.encode(until)),
    }


def keys_of(secret: Mapping[str, Any]) -> Keys | None:
    """What a Secret holds; `None` for an empty one, which may be prepared so that nobody needs to create it.

    Raises `StoreError` for one that holds something else, or something damaged.
    """
    raw: Any = secret.get("data") or {}
    if not isinstance(raw, dict):
        raise StoreError("its data is no mapping")
    data = {key: value for key, value in cast("dict[str, Any]", raw).items() if value}
    if not data:
        return None
    if "ca.key" not in data:
        fault = StoreError("it holds something that was not written here: there is no ca.key")
        fault.foreign = True
        raise fault
    try:
        return _keys({key: base64.b64decode(value, validate=True) for key, value in data.items()})
    except StoreError:
        raise
    except (ValueError, KeyError, TypeError, binascii.Error, msgspec.DecodeError) as problem:
        # The problem's own words may quote what they could not read.
        raise StoreError(f"it is damaged ({type(problem).__name__})") from None


def _keys(data: Mapping[str, bytes]) -> Keys:
    until = msgspec.json.decode(data.get("retired.json", b"{}"), type=dict[str, datetime])
    retired: list[tuple[bytes, datetime]] = []
    signing: list[bytes] = []
    for pem in split(data["ca.crt"]):
        end = until.get(fingerprint(pem))
        if end is None:
            signing.append(pem)
        else:
            retired.append((pem, end))
    authority = _owner(signing, data["ca.key"], "ca.key")
    following = data.get("next-ca.key")
    successor = _owner(signing, following, "next-ca.key") if following else None
    serving = KeyPair(data["tls.crt"], data["tls.key"])
    if not belongs(serving):
        raise StoreError("tls.key is not the key of tls.crt")
    return Keys(authority, serving, successor, tuple(retired))


def _owner(certificates: list[bytes], key: bytes, named: str) -> KeyPair:
    for pem in certificates:
        pair = KeyPair(pem, key)
        if belongs(pair):
            return pair
    raise StoreError(f"ca.crt has no certificate for {named}")


def requested(secret: Mapping[str, Any]) -> bool:
    """Whether the Secret's annotation asks for a new authority."""
    metadata: Any = secret.get("metadata") or {}
    return REQUEST in (cast("dict[str, Any]", metadata).get("annotations") or {})
