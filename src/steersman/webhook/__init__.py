"""Admission and conversion webhooks: the HTTPS server that the API server calls, and its certificates.

Handlers are declared on the `Operator`. A review returns changes as a JSON patch and a denial as a Status; it stores
nothing.

A name is loaded from its module at its first use, so that an operator without webhooks does not load the server.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from typing would cost more than the rest of this module

if TYPE_CHECKING:
    from steersman.webhook.admission import Admission
    from steersman.webhook.admission_review import UserInfo
    from steersman.webhook.configuration import ClientConfig, MatchCondition, WebhookOptions, configurations
    from steersman.webhook.denials import AdmissionRefusedError, DeniedError, FieldError, Invalid
    from steersman.webhook.http import WebhookServer
    from steersman.webhook.http_messages import WebhookRequest, WebhookResponse

_MODULES = {
    "Admission": "steersman.webhook.admission",
    "UserInfo": "steersman.webhook.admission_review",
    "ClientConfig": "steersman.webhook.configuration",
    "MatchCondition": "steersman.webhook.configuration",
    "WebhookOptions": "steersman.webhook.configuration",
    "configurations": "steersman.webhook.configuration",
    "AdmissionRefusedError": "steersman.webhook.denials",
    "DeniedError": "steersman.webhook.denials",
    "FieldError": "steersman.webhook.denials",
    "Invalid": "steersman.webhook.denials",
    "WebhookRequest": "steersman.webhook.http_messages",
    "WebhookResponse": "steersman.webhook.http_messages",
    "WebhookServer": "steersman.webhook.http",
}
"""The module of each public name."""

__all__ = [
    "Admission",
    "AdmissionRefusedError",
    "ClientConfig",
    "DeniedError",
    "FieldError",
    "Invalid",
    "MatchCondition",
    "UserInfo",
    "WebhookOptions",
    "WebhookRequest",
    "WebhookResponse",
    "WebhookServer",
    "configurations",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'steersman.webhook' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
