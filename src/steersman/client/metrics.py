"""What the client measures, under client-go's names, so that its dashboards and alerts work unchanged."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from steersman.telemetry.metrics import counter, histogram

__all__ = ["HostMetrics"]

_REQUESTS = counter(
    "rest_client_requests_total",
    "Number of HTTP requests, partitioned by status code, method, and host.",
    ("code", "method", "host"),
)
_RETRIES = counter(
    "rest_client_request_retries_total",
    "Number of request retries, partitioned by status code, verb, and host.",
    ("code", "verb", "host"),
)
_SECONDS = histogram(
    "rest_client_request_duration_seconds",
    "Request latency in seconds. Broken down by verb, and host.",
    ("verb", "host"),
    buckets=(0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
)


class HostMetrics:
    """The client's metrics for one host; resolves every child once. The code of a failed request is `<error>`."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._counts: dict[tuple[int, str], Counter] = {}
        self._seconds: dict[str, Histogram] = {}

    def done(self, code: int, method: str, seconds: float) -> None:
        """Count one request that ended with `code` (0: without an answer) after `seconds`."""
        count = self._counts.get((code, method))
        if count is None:
            count = self._counts[code, method] = _REQUESTS.labels(str(code) if code else "<error>", method, self._host)
        count.inc()
        latency = self._seconds.get(method)
        if latency is None:
            latency = self._seconds[method] = _SECONDS.labels(method, self._host)
        latency.observe(seconds)

    def retried(self, code: int, method: str) -> None:
        """Count one retry because of `code` (0: no answer)."""
        _RETRIES.labels(str(code) if code else "<error>", method, self._host).inc()
