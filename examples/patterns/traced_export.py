"""OpenTelemetry: a span of one's own within the span of the reconcile.

`steersman run --tracing traced_export:operator` makes a span for each reconcile, API request and admission review, and
exports them as the variables `OTEL_*` say. Spans of the function become children of the reconcile's span.
"""

from opentelemetry import trace

from steersman import Context, Operator
from steersman.k8s import ConfigMap

EXPORT = "patterns.example.com/export"

tracer = trace.get_tracer("traced-export")
operator = Operator("traced-export")


@operator.controller(where=lambda found: EXPORT in found.metadata.labels)
async def reconcile(found: ConfigMap, ctx: Context) -> None:
    with tracer.start_as_current_span("export") as span:
        span.set_attribute("export.keys", len(found.data))
        ctx.log.info("exported", keys=len(found.data))
