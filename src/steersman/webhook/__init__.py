"""Admission and conversion webhooks: the HTTPS server that the API server calls, and its certificates.

Handlers are declared on the `Operator`. A review returns changes as a JSON patch and a denial as a Status; it stores
nothing.
"""

from steersman.webhook.admission import Admission
from steersman.webhook.admission_review import UserInfo
from steersman.webhook.configuration import ClientConfig, MatchCondition, WebhookOptions, configurations
from steersman.webhook.denials import AdmissionRefusedError, DeniedError, FieldError, Invalid
from steersman.webhook.http import WebhookRequest, WebhookResponse, WebhookServer

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
