"""The webhook checks of `steersman doctor`.

A webhook without a valid certificate or Service blocks writes of all users, so all admission and conversion webhooks
of the cluster are checked. Read-only: no webhook is called.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from steersman.cli.doctor.findings import CRDS, Finding, Level, get
from steersman.client import Client
from steersman.client.errors import Forbidden, NotFound

__all__ = ["check_webhooks"]

_HOOKS: Final = "/apis/admissionregistration.k8s.io/v1"
_EXPIRY_WARNING_DAYS: Final = 14


async def check_webhooks(client: Client, now: datetime) -> AsyncIterator[Finding]:
    """Check the webhooks of the whole cluster, because an unreachable webhook blocks writes of all users."""
    count = 0
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        try:
            items: list[dict[str, Any]] = (await get(client, f"{_HOOKS}/{plural}"))["items"]
        except Forbidden:
            yield Finding("skip", "webhooks", f"not allowed to list {plural}")
            continue
        for item in items:
            for hook in item.get("webhooks") or ():
                count += 1
                subject = f"{plural.removesuffix('s')}/{item['metadata']['name']} {hook['name']}"
                stops = hook.get("failurePolicy", "Fail") == "Fail"
                async for finding in _hook(client, subject, hook.get("clientConfig") or {}, now, stops=stops):
                    yield finding
    try:
        crds: list[dict[str, Any]] = (await get(client, CRDS))["items"]
    except Forbidden:
        crds = []
    for crd in crds:
        conversion: dict[str, Any] = crd["spec"].get("conversion") or {}
        if conversion.get("strategy") == "Webhook":
            count += 1
            subject = f"conversion of {crd['metadata']['name']}"
            webhook: dict[str, Any] = conversion.get("webhook") or {}
            async for finding in _hook(client, subject, webhook.get("clientConfig") or {}, now, stops=True):
                yield finding
    yield Finding("ok", "webhooks", f"{count} checked")


async def _hook(
    client: Client, subject: str, config: Mapping[str, Any], now: datetime, *, stops: bool
) -> AsyncIterator[Finding]:
    level: Level = "fail" if stops else "warn"
    effect = "; its requests are refused" if stops else ""
    for text in _bundle_problems(config.get("caBundle") or "", now, needed=bool(config.get("service"))):
        expired = "expires" not in text
        hint = "renew the certificates; with cert-manager, check its cainjector"
        yield Finding(level if expired else "warn", "webhooks", f"{subject}: {text}", hint)
    service: Mapping[str, Any] = config.get("service") or {}
    if not service:
        return
    where = f"{service['namespace']}/{service['name']}"
    path = f"/api/v1/namespaces/{service['namespace']}/services/{service['name']}"
    try:
        await get(client, path)
    except NotFound:
        yield Finding(
            level, "webhooks", f"{subject}: there is no Service {where}{effect}", "deploy it, or delete the webhook"
        )
        return
    except Forbidden:
        return
    query = f"labelSelector=kubernetes.io/service-name%3D{service['name']}"
    root = f"/apis/discovery.k8s.io/v1/namespaces/{service['namespace']}/endpointslices"
    try:
        slices: list[dict[str, Any]] = (await get(client, f"{root}?{query}"))["items"]
    except Forbidden:
        return
    endpoints: list[dict[str, Any]] = [e for s in slices for e in s.get("endpoints") or ()]
    if not any(_ready(endpoint) for endpoint in endpoints):
        hint = f"kubectl describe endpointslices,pods -n {service['namespace']}"
        yield Finding(level, "webhooks", f"{subject}: Service {where} has no ready endpoint{effect}", hint)


def _ready(endpoint: Mapping[str, Any]) -> bool:
    conditions: Mapping[str, Any] = endpoint.get("conditions") or {}
    return conditions.get("ready") is not False  # An unknown state counts as ready.


def _bundle_problems(bundle: str, now: datetime, *, needed: bool) -> Iterator[str]:
    """Return the errors of a caBundle; a webhook with a URL can rely on the CAs of the system."""
    if not bundle:
        if needed:
            yield "has no caBundle, so the API server does not trust it"
        return
    from cryptography import x509

    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except (ValueError, binascii.Error):
        yield "its caBundle is not a certificate"
        return
    last = max(cert.not_valid_after_utc for cert in certificates)
    if last < now:
        yield f"its caBundle has expired on {last:%Y-%m-%d}"
    elif (last - now).days < _EXPIRY_WARNING_DAYS:
        yield f"its caBundle expires on {last:%Y-%m-%d}"
    elif min(cert.not_valid_before_utc for cert in certificates) > now:
        yield "its caBundle is not valid yet"
