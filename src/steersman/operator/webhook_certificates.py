"""The source of a replica's webhook certificates: a Secret, a directory, or certificates for one run.

The names of the Secret and the webhook configurations are defined here, for the manifests, too.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from steersman.client import Client
from steersman.client.config import Config
from steersman.operator.operator import Operator
from steersman.operator.settings import Settings, SettingsError, parse_address
from steersman.webhook.certificate_settings import CertificateSettings
from steersman.webhook.certificate_sources import DirectoryCertificates, LocalCertificates, ServingCertificates
from steersman.webhook.injection import Targets
from steersman.webhook.rotation import CertificateLifetimes

__all__ = ["certificates_for"]

_MAX_SECRET_READS: Final = 4
"""The number of reads of the Secret within one settling time."""
_MAX_POLL_SECONDS: Final = 30.0
_MAX_LIFETIME: Final = timedelta(days=3650)


async def certificates_for(
    operator: Operator, settings: Settings, config: Config, client: Client
) -> ServingCertificates:
    """Return certificates that are ready to serve. Raises `SettingsError` with the setting to change.

    Every replica writes through `client`, with or without the lease.
    """
    if settings.webhook_cert_dir:
        try:
            return DirectoryCertificates(settings.webhook_cert_dir)
        except (OSError, ValueError) as problem:
            raise SettingsError(
                f"--webhook-cert-dir {settings.webhook_cert_dir}: tls.crt and tls.key cannot be used: {problem}"
            ) from None
    if settings.webhook_mode == "cluster":
        return await _self_managed(operator, settings, config, client)
    host = urlsplit(settings.webhook_url).hostname if settings.webhook_url else ""
    bound = parse_address(settings.webhook_bind_address)
    names = [n for n in (host, bound.host if bound else "", "localhost", "127.0.0.1", "::1") if n]
    return LocalCertificates(operator.name, dict.fromkeys(names))


async def _self_managed(operator: Operator, settings: Settings, config: Config, client: Client) -> ServingCertificates:
    from steersman.webhook.certificates import CertificateError, CertificateManager

    settle, life = settings.webhook_cert_settle, settings.webhook_cert_life
    try:
        lives = timedelta(seconds=life)
        if lives > _MAX_LIFETIME:
            raise ValueError(f"a certificate lives for {_MAX_LIFETIME.days} days at most")
        wanted = CertificateSettings(
            operator=operator.name,
            namespace=settings.lease_namespace or config.namespace,
            lifetimes=CertificateLifetimes(
                propagation=timedelta(seconds=settle),
                serving_lifetime=lives,
                authority_lifetime=max(CertificateLifetimes().authority_lifetime, 4 * lives),
            ),
            poll=min(_MAX_POLL_SECONDS, settle / _MAX_SECRET_READS),
        )
    except (ValueError, OverflowError) as problem:
        raise SettingsError(f"--webhook-cert-settle={settle:g}, --webhook-cert-life={life:g}: {problem}") from None
    rules = operator.webhook_rules
    targets = Targets(
        (wanted.namespace, wanted.service_name),
        mutating=(f"{operator.name}-mutating",) if any(r.mutating for r in rules) else (),
        validating=(f"{operator.name}-validating",) if any(not r.mutating for r in rules) else (),
        crds=tuple(sorted({w.kind.info.crd_name for w in operator.webhooks if w.purpose == "converter"})),
    )
    made = CertificateManager(client, wanted, targets)
    try:
        await made.start()
    except CertificateError as problem:
        await made.close()
        raise SettingsError(f"--webhook-mode cluster: {problem}") from None
    except BaseException:
        await made.close()
        raise
    return made
