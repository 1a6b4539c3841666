"""The client's metrics, with client-go's names, so that its dashboards and alerts can be used.

Every request is counted, so counting is a dictionary look-up and plain integers; the metric families are created when
the metrics are scraped. All clients of one host share the counts, for the life of the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steersman.telemetry.families import Family
from steersman.telemetry.histogram import Histogram
from steersman.telemetry.metrics import register

__all__ = ["HostMetrics"]

_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class _Count:
    __slots__ = ("seconds", "times")

    def __init__(self, seconds: Histogram) -> None:
        self.times = 0
        self.seconds = seconds


class _Host:
    """The counts of one host."""

    __slots__ = ("requests", "retries", "seconds")

    def __init__(self) -> None:
        self.requests: dict[tuple[int, str], _Count] = {}
        self.retries: dict[tuple[int, str], int] = {}
        self.seconds: dict[str, Histogram] = {}


_hosts: dict[str, _Host] = {}


class HostMetrics:
    """The client's metrics for one host. The code of a failed request is `<error>`."""

    __slots__ = ("_host", "_requests")

    def __init__(self, host: str) -> None:
        self._host = _hosts.setdefault(host, _Host())
        self._requests = self._host.requests

    def done(self, code: int, method: str, seconds: float) -> None:
        """Count one request that ended with `code` (0 without a response) after `seconds`."""
        count = self._requests.get((code, method))
        if count is None:
            latency = self._host.seconds.setdefault(method, Histogram(_BUCKETS))
            count = self._requests[code, method] = _Count(latency)
        count.times += 1
        count.seconds.observe(seconds)

    def retried(self, code: int, method: str) -> None:
        """Count one retry because of `code` (0 without a response)."""
        retries = self._host.retries
        retries[code, method] = retries.get((code, method), 0) + 1


class _HostSource:
    def describe(self) -> Sequence[Family]:
        return self._families({})

    def collect(self) -> Sequence[Family]:
        return self._families(_hosts)

    def _families(self, hosts: Mapping[str, _Host]) -> Sequence[Family]:
        requests = Family(
            "counter",
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            labels=["code", "method", "host"],
        )
        retries = Family(
            "counter",
            "rest_client_request_retries",
            "Number of request retries, partitioned by status code, verb, and host.",
            labels=["code", "verb", "host"],
        )
        seconds = Family(
            "histogram",
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            labels=["verb", "host"],
        )
        # A scrape may run in another thread: each dictionary is copied in one step.
        for host, counts in list(hosts.items()):
            for (code, method), count in list(counts.requests.items()):
                requests.add([_code(code), method, host], count.times)
            for (code, method), times in list(counts.retries.items()):
                retries.add([_code(code), method, host], times)
            for method, histogram in list(counts.seconds.items()):
                seconds.add_histogram([method, host], histogram.buckets(), histogram.total)
        return [requests, retries, seconds]


def _code(code: int) -> str:
    return str(code) if code else "<error>"


register(_HostSource())
