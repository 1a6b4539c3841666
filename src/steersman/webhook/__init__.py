"""Admission and conversion webhooks: the server that a cluster asks before it stores an object, and its certificates.

Handlers are declared on the `Operator`; here is what answers. It reviews and never stores: whatever a review changes
leaves as a patch, and what it refuses leaves as a Status.
"""

from steersman.webhook.admission import Admission
from steersman.webhook.configuration import ClientConfig, MatchCondition, WebhookOptions, configurations
from steersman.webhook.errors import AdmissionRefusedError, DeniedError, FieldError, Invalid
from steersman.webhook.http import WebhookRequest, WebhookResponse, WebhookServer
from steersman.webhook.review import UserInfo

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
