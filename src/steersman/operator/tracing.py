"""Optional OpenTelemetry: a span for each reconcile and each API request.

Without the setting `tracing`, OpenTelemetry is not imported, and a request costs one more comparison with `None`. The
`OTEL_*` environment variables configure the exporters. Spans contain no headers, queries or bodies.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from steersman.controller import Request
from steersman.extras import require

__all__ = ["Tracing", "require_tracing", "start_tracing"]


class Tracing:
    """The spans of one process; created by `start_tracing`."""

    def __init__(self, tracer: Any, provider: Any = None) -> None:
        self._tracer = tracer
        self._provider = provider

    @contextmanager
    def reconcile(self, controller: str, kind: str, request: Request) -> Generator[None]:
        """Start the span of one reconcile; an exception is recorded and marks it as failed."""
        attributes = {
            "steersman.controller": controller,
            "k8s.object.kind": kind,
            "k8s.namespace.name": request.key.namespace,
            "k8s.object.name": request.key.name,
            "steersman.reconcile_id": request.reconcile_id,
            "steersman.attempt": request.attempt,
            "steersman.reasons": list(request.reasons),
        }
        with self._tracer.start_as_current_span(f"reconcile {controller}", attributes=attributes):
            yield

    @contextmanager
    def request(self, method: str, path: str) -> Generator[Any]:
        """Start the span of one API request, as a child of the reconcile's span if there is one."""
        attributes = {"http.request.method": method, "url.path": path}
        with self._tracer.start_as_current_span(f"{method} {path}", attributes=attributes) as span:
            yield span

    @contextmanager
    def admission(self, webhook: str, operation: str, kind: str, namespace: str, name: str) -> Generator[None]:
        """Start the span of one admission review."""
        attributes = {
            "steersman.webhook": webhook,
            "steersman.operation": operation,
            "k8s.object.kind": kind,
            "k8s.namespace.name": namespace,
            "k8s.object.name": name,
        }
        with self._tracer.start_as_current_span(f"admission {webhook}", attributes=attributes):
            yield

    def close(self) -> None:
        """Export the remaining spans."""
        if self._provider is not None:
            self._provider.shutdown()


def require_tracing() -> None:
    """Check that the packages of OpenTelemetry are installed. Raises `MissingExtraError`."""
    modules = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
    require("tracing", "otel", *modules, otherwise="turn tracing off")


def start_tracing(service: str) -> Tracing:
    """Set up OpenTelemetry from its environment variables; raises `MissingExtraError` without its packages."""
    require_tracing()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider.get_tracer("steersman"), provider)
