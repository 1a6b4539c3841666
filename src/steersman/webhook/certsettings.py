"""Names and terms of the webhooks' certificates in a cluster, as the manifests and the running replicas share them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from steersman.webhook.rotation import Terms

__all__ = ["CertificateSettings"]

_LONGEST_NAME: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """Where certificates are kept, and how often every replica looks. Raises ValueError for what cannot work."""

    operator: str
    namespace: str
    """Of the Service, the Secret and the Lease."""
    service: str = ""
    """The Service's name; `<operator>-webhook` unless given."""
    terms: Terms = field(default_factory=Terms)
    poll: float = 30.0
    """Seconds between two looks at the Secret; at most half of the settling time."""
    more_hosts: tuple[str, ...] = ()
    """Names and addresses beside those of the Service."""

    def __post_init__(self) -> None:
        if not self.operator or not self.namespace:
            raise ValueError("an operator's name and a namespace are needed")
        if not 0 < self.poll * 2 <= self.terms.settle.total_seconds():
            raise ValueError(f"poll={self.poll:g}: seconds, at most half of the settling time")

    @property
    def service_name(self) -> str:
        return self.service or f"{self.operator}-webhook"

    @property
    def secret(self) -> str:
        """The Secret's name, and the Lease's."""
        return f"{self.service_name}-cert"

    @property
    def hosts(self) -> frozenset[str]:
        """What the certificate is for: API servers ask for `<service>.<namespace>.svc`."""
        base = f"{self.service_name}.{self.namespace}"
        return frozenset({base, f"{base}.svc", f"{base}.svc.cluster.local", *self.more_hosts})

    @property
    def common_name(self) -> str:
        """The subject of what is made here: a name that people recognise, not what is verified."""
        return self.service_name[:_LONGEST_NAME]
