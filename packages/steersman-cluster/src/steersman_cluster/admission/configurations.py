"""The webhooks that are registered now, in the order in which they are called; read once, then following changes."""

from __future__ import annotations

from dataclasses import dataclass

from steersman_cluster.json_access import get_object, get_objects
from steersman_cluster.objects import Object, name_of
from steersman_cluster.strategy import Reader

__all__ = ["Webhook", "Webhooks"]

_GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"


@dataclass(frozen=True, slots=True)
class Webhook:
    """One entry of `webhooks` in a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""

    configuration: str
    uid: str
    """Unique among all webhooks."""
    spec: Object

    @property
    def name(self) -> str:
        """The name in the configuration, which denials and audit annotations contain."""
        return self.spec.get("name") or ""

    @property
    def ignores_failures(self) -> bool:
        """Whether a write proceeds if the webhook fails (`failurePolicy: Ignore`)."""
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def timeout(self) -> float:
        """Seconds until a call counts as failed; 10 by default."""
        return self.spec.get("timeoutSeconds") or 10

    @property
    def client_config(self) -> Object:
        """The Service or URL of the webhook, and its `caBundle`."""
        return get_object(self.spec, "clientConfig")


class Webhooks:
    """All webhooks of one sort (`MUTATING` or `VALIDATING`), configurations by name."""

    def __init__(self, reader: Reader, resource: str) -> None:
        self._reader = reader
        self._resource = resource
        self._known: tuple[Webhook, ...] | None = None

    def changed(self, resource: str) -> None:
        """A configuration was written or deleted."""
        if resource == self._resource:
            self._known = None

    def all(self) -> tuple[Webhook, ...]:
        """The webhooks in the order of their calls."""
        if self._known is None:
            self._known = tuple(
                Webhook(name_of(item), f"{name_of(item)}/{spec.get('name')}/{index}", spec)
                for item in sorted(self._reader.list(_GROUP, self._resource), key=name_of)
                for index, spec in enumerate(get_objects(item, "webhooks"))
            )
        return self._known
