"""The metrics of webhooks, with controller-runtime's names, so that its dashboards and alerts can be used."""

from __future__ import annotations

from steersman.telemetry.metrics import counter, gauge, histogram

__all__ = ["CERTIFICATE_EXPIRY", "IN_FLIGHT", "LATENCY", "PANICS", "REQUESTS"]

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

REQUESTS = counter(
    "controller_runtime_webhook_requests",
    "Total number of admission requests by HTTP status code.",
    ["webhook", "code"],
)
LATENCY = histogram(
    "controller_runtime_webhook_latency_seconds",
    "Histogram of the latency of processing admission requests",
    ["webhook"],
    buckets=_BUCKETS,
)
IN_FLIGHT = gauge(
    "controller_runtime_webhook_requests_in_flight",
    "Current number of admission requests being served.",
    ["webhook"],
)
PANICS = counter("controller_runtime_webhook_panics", "Total number of webhook panics.", ["webhook"])
CERTIFICATE_EXPIRY = gauge(
    "steersman_webhook_certificate_expiry_timestamp_seconds",
    "Expiry of the certificate that this replica uses, in seconds since the epoch",
).labels()
