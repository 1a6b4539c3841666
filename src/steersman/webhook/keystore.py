"""The webhooks' keys and certificates as one value, their changes by the steps of a rotation, and their Secret.

The Secret has the type kubernetes.io/tls and the usual keys (`tls.crt`, `tls.key`, `ca.crt`); `ca.crt` is the whole
bundle. The functions have no side effects, but create random keys. Private keys are never part of a repr or an error.
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
from steersman.pki.certificate_facts import describe, fingerprint, key_matches, signed_by, split
from steersman.webhook.rotation import (
    Action,
    CertificateLifetimes,
    CertificateState,
    Create,
    Issuer,
    Publish,
    Renew,
    Resign,
    Restore,
    Retire,
    Retired,
    ServingCertificate,
    Wait,
)

__all__ = ["REQUEST", "CertificateSecretError", "Keys", "advance", "data_of", "keys_of", "requested"]

REQUEST: Final = "steersman.dev/rotate-ca"
"""An annotation on the Secret that requests a new authority; it is removed when the rotation starts."""

_BACKDATING: Final = timedelta(hours=1)
"""A first authority is valid from this time before now, for clocks that are slow."""


class CertificateSecretError(ValueError):
    """The Secret has invalid content; the message never quotes it."""

    foreign = False
    """Whether another program wrote the Secret: then it is not changed."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The content of the Secret. `retired` are certificates whose keys were deleted."""

    authority: KeyPair
    serving: KeyPair
    successor: KeyPair | None = None
    retired: tuple[tuple[bytes, datetime], ...] = ()
    state: CertificateState = field(init=False, repr=False, compare=False)
    """The same without keys, for `rotation.decide`."""

    def __post_init__(self) -> None:
        ours, serving_facts = describe(self.authority.cert_pem), describe(self.serving.cert_pem)
        issuer = ours.fingerprint if signed_by(self.serving.cert_pem, self.authority.cert_pem) else ""
        successor = None
        if self.successor is not None:
            theirs = describe(self.successor.cert_pem)
            successor = Issuer(theirs.fingerprint, theirs.not_after)
        state = CertificateState(
            Issuer(ours.fingerprint, ours.not_after),
            ServingCertificate(issuer, serving_facts.not_after, serving_facts.hosts),
            successor,
            tuple(Retired(fingerprint(pem), until) for pem, until in self.retired),
        )
        object.__setattr__(self, "state", state)

    @property
    def bundle(self) -> bytes:
        """The value of every `caBundle`: the current authority, the next one, and retired ones."""
        pems = [self.authority.cert_pem]
        if self.successor is not None:
            pems.append(self.successor.cert_pem)
        return b"".join([*pems, *(pem for pem, _ in self.retired)])


def advance(
    keys: Keys | None,
    action: Action,
    *,
    name: str,
    hosts: frozenset[str],
    lifetimes: CertificateLifetimes,
    now: datetime,
) -> Keys:
    """Return the keys after a step; `name` is the authority's. `Wait` and `Restore` change nothing."""
    if isinstance(action, Create) or keys is None:
        # A rotated authority is valid from the same time as its predecessor, so that a clock that was once
        # fast does not create certificates that are "not valid yet" for other replicas.
        authority = _authority(name, now - _BACKDATING, now, lifetimes)
        return Keys(authority, _serving(authority, name, hosts, lifetimes, now))
    match action:
        case Renew():
            return replace(keys, serving=_serving(keys.authority, name, hosts, lifetimes, now))
        case Publish():
            start = describe(keys.authority.cert_pem).not_before
            return replace(keys, successor=_authority(name, min(start, now - _BACKDATING), now, lifetimes))
        case Resign(until):
            if keys.successor is None:
                return keys
            retired = (*keys.retired, (keys.authority.cert_pem, until))
            serving = _serving(keys.successor, name, hosts, lifetimes, now)
            return Keys(keys.successor, serving, None, retired)
        case Retire(ids):
            return replace(keys, retired=tuple(r for r in keys.retired if fingerprint(r[0]) not in ids))
        case Wait() | Restore():
            return keys


def _authority(name: str, start: datetime, now: datetime, lifetimes: CertificateLifetimes) -> KeyPair:
    # The time in the name distinguishes authorities for verifiers that find issuers by name only.
    common_name = f"{name[:40]} {now:%Y%m%dT%H%M%SZ}"
    return Authority.create(common_name, window=(start, now + lifetimes.authority_lifetime)).pair


def _serving(
    authority: KeyPair, name: str, hosts: frozenset[str], lifetimes: CertificateLifetimes, now: datetime
) -> KeyPair:
    issuer = describe(authority.cert_pem)
    window = (issuer.not_before, min(now + lifetimes.serving_lifetime, issuer.not_after))
    return Authority.load(authority).serving(name[:64], sorted(hosts), window=window)


# The Secret.


def data_of(keys: Keys) -> dict[str, str | None]:
    """Return the Secret's `data`; `None` for a key that must not exist."""
    until = {issuer.id: issuer.until.isoformat() for issuer in keys.state.retired}
    return {
        "tls.crt": b64(keys.serving.cert_pem),
        "tls.key": b64(keys.serving.key_pem),
        "ca.crt": b64(keys.bundle),
        "ca.key": b64(keys.authority.key_pem),
        "next-ca.key": b64(keys.successor.key_pem) if keys.successor else None,
        "retired.json": b64(msgspec.json.encode(until)),
    }


def keys_of(secret: Mapping[str, Any]) -> Keys | None:
    """Return the content of a Secret; `None` for an empty Secret, which manifests may create in advance.

    Raises `CertificateSecretError` for content of another program or damaged content.
    """
    raw: Any = secret.get("data") or {}
    if not isinstance(raw, dict):
        raise CertificateSecretError("its data is not a mapping")
    data = {key: value for key, value in cast("dict[str, Any]", raw).items() if value}
    if not data:
        return None
    if "ca.key" not in data:
        fault = CertificateSecretError("it was written by another program: there is no ca.key")
        fault.foreign = True
        raise fault
    try:
        return _keys({key: base64.b64decode(value, validate=True) for key, value in data.items()})
    except CertificateSecretError:
        raise
    except (ValueError, KeyError, TypeError, binascii.Error, msgspec.DecodeError) as problem:
        # The message of the exception may quote the content.
        raise CertificateSecretError(f"it is damaged ({type(problem).__name__})") from None


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
    if not key_matches(serving):
        raise CertificateSecretError("tls.key is not the key of tls.crt")
    return Keys(authority, serving, successor, tuple(retired))


def _owner(certificates: list[bytes], key: bytes, named: str) -> KeyPair:
    for pem in certificates:
        pair = KeyPair(pem, key)
        if key_matches(pair):
            return pair
    raise CertificateSecretError(f"ca.crt has no certificate for {named}")


def requested(secret: Mapping[str, Any]) -> bool:
    """Return whether the Secret's annotation requests a new authority."""
    metadata: Any = secret.get("metadata") or {}
    return REQUEST in (cast("dict[str, Any]", metadata).get("annotations") or {})
