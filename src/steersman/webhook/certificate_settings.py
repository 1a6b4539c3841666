"""Names and lifetimes of the webhooks' certificates in a cluster, shared by the manifests and the replicas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from steersman.webhook.rotation import CertificateLifetimes

__all__ = ["CertificateSettings"]

_MAX_NAME_CHARACTERS: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """The storage of certificates, and the interval of reads by each replica. Raises ValueError for invalid values."""

    operator: str
    namespace: str
    """The namespace of the Service, the Secret and the Lease."""
    service: str = ""
    """The Service's name; `<operator>-webhook` unless given."""
    lifetimes: CertificateLifetimes = field(default_factory=CertificateLifetimes)
    poll: float = 30.0
    """Seconds between two reads of the Secret; at most half of the propagation time."""
    more_hosts: tuple[str, ...] = ()
    """Names and addresses in addition to those of the Service."""

    def __post_init__(self) -> None:
        if not self.operator or not self.namespace:
            raise ValueError("certificate settings need an operator name and a namespace")
        if not 0 < self.poll * 2 <= self.lifetimes.propagation.total_seconds():
            raise ValueError(f"poll={self.poll:g}: must be positive and at most half of the propagation time (seconds)")

    @property
    def service_name(self) -> str:
        """The Service's name."""
        return self.service or f"{self.operator}-webhook"

    @property
    def secret(self) -> str:
        """The name of the Secret and of the Lease."""
        return f"{self.service_name}-cert"

    @property
    def hosts(self) -> frozenset[str]:
        """The names in the certificate; API servers verify `<service>.<namespace>.svc`."""
        base = f"{self.service_name}.{self.namespace}"
        return frozenset({base, f"{base}.svc", f"{base}.svc.cluster.local", *self.more_hosts})

    @property
    def common_name(self) -> str:
        """The subject of the certificates, for people; verification uses `hosts`."""
        return self.service_name[:_MAX_NAME_CHARACTERS]
