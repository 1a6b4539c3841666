"""The rotation of the certificates of a cluster: the next content of the Secret, as a pure function.

| step | trusted authorities | certificate |
|---|---|---|
| none | one | of this authority |
| `Trust` | the former and the new one | of the former authority |
| `Serve` | the former and the new one | of the new authority |

Each step lasts until all members use it, and for an overlap in which clients read the authorities again. The step and
its time are annotations of the Secret, so that they change together with its content.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from mysqlcluster.agent.tls import certificate_revision

__all__ = ["ROTATE_CERTIFICATES", "CertificateChange", "next_change", "renewal_reason"]

ROTATE_CERTIFICATES = "database.example.com/rotate-certificates"
"""Annotation of a cluster: a new value requests new certificates."""
STEP = "database.example.com/certificate-step"
STEP_AT = "database.example.com/certificate-step-at"
OVERLAP = timedelta(hours=1)
RENEW_BEFORE = timedelta(days=30)


class CertificateChange(NamedTuple):
    """One write of the Secret; `None` removes a key."""

    data: Mapping[str, bytes | None]
    annotations: Mapping[str, str | None]
    reason: str
    completed: bool = False


def renewal_reason(data: Mapping[str, bytes], annotations: Mapping[str, str], request: str, now: datetime) -> str:
    """Return why a rotation begins now; empty if none does. The arguments are those of `next_change`."""
    if annotations.get(STEP):
        return ""
    if request and annotations.get(ROTATE_CERTIFICATES, "") != request:
        return f"requested by {request!r}"
    expires = _expiry(data["ca.crt"])
    return f"the certificate expires at {expires.isoformat()}" if expires - now <= RENEW_BEFORE else ""


def next_change(
    data: Mapping[str, bytes],
    annotations: Mapping[str, str],
    request: str,
    revisions: Sequence[str],
    now: datetime,
    made: Mapping[str, bytes],
) -> CertificateChange | None:
    """Return the next change of the Secret; `None` if there is none now.

    Args:
        data: The content of the Secret.
        annotations: The annotations of the Secret.
        request: The value of the cluster's annotation; empty without one.
        revisions: The revisions of the certificates that the members use.
        now: The time.
        made: New certificates, if there is a `renewal_reason`.
    """
    step = annotations.get(STEP, "")
    if not step:
        reason = renewal_reason(data, annotations, request, now)
        return _begin(data, request, reason, now, made) if reason else None
    used = certificate_revision(data["ca.crt"], data["tls.crt"])
    since = now - datetime.fromisoformat(annotations[STEP_AT])
    if since < OVERLAP or any(each != used for each in revisions):
        return None
    if step == "Trust":
        content = {"tls.crt": data["next.crt"], "tls.key": data["next.key"], "next.crt": None, "next.key": None}
        return CertificateChange(content, _at("Serve", now), "all members trust the new authority")
    content = {"ca.crt": data["next-ca.crt"], "next-ca.crt": None}
    return CertificateChange(content, {STEP: None, STEP_AT: None}, "all members use the new certificate", True)


def _begin(
    data: Mapping[str, bytes], request: str, reason: str, now: datetime, made: Mapping[str, bytes]
) -> CertificateChange:
    content = {
        "ca.crt": data["ca.crt"] + made["ca.crt"],
        "next-ca.crt": made["ca.crt"],
        "next.crt": made["tls.crt"],
        "next.key": made["tls.key"],
    }
    return CertificateChange(content, {**_at("Trust", now), ROTATE_CERTIFICATES: request or None}, reason)


def _expiry(authority: bytes) -> datetime:
    """Return the end of the validity of an authority, which is also that of the certificate that it signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.decode())
    (found,) = context.get_ca_certs()
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(found["notAfter"])), UTC)


def _at(step: str, now: datetime) -> dict[str, str | None]:
    return {STEP: step, STEP_AT: now.isoformat()}
