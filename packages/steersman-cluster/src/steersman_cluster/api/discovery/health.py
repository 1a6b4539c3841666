"""`/healthz`, `/livez` and `/readyz`: every check passes while the server responds.

The checks have the names that the API server gives them, because clients select or exclude single ones.
"""

from __future__ import annotations

from typing import Final

from steersman_cluster.api.requests.messages import Request, Response

__all__ = ["HEALTH_PATHS", "is_health", "serve_health"]

_HOOKS: Final = tuple(
    f"poststarthook/{name}"
    for name in (
        "start-apiserver-admission-initializer",
        "generic-apiserver-start-informers",
        "priority-and-fairness-config-consumer",
        "priority-and-fairness-filter",
        "storage-object-count-tracker-hook",
        "start-apiextensions-informers",
        "start-apiextensions-controllers",
        "crd-informer-synced",
        "start-system-namespaces-controller",
        "peer-endpoint-reconciler-controller",
        "start-cluster-authentication-info-controller",
        "start-kube-apiserver-identity-lease-controller",
        "start-kube-apiserver-identity-lease-garbage-collector",
        "storage-readiness",
        "start-legacy-token-tracking-controller",
        "start-service-ip-repair-controllers",
        "rbac/bootstrap-roles",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
        "bootstrap-controller",
        "start-kubernetes-service-cidr-controller",
        "start-kube-aggregator-informers",
        "apiservice-status-local-available-controller",
        "apiservice-status-remote-available-controller",
        "apiservice-registration-controller",
        "apiservice-discovery-controller",
        "kube-apiserver-autoregistration",
    )
)
_LAST: Final = tuple(f"poststarthook/apiservice-{name}-controller" for name in ("openapi", "openapiv3"))
_LIVE: Final = ("ping", "log", "loopback-serving-certificate", "etcd", *_HOOKS, "autoregister-completion", *_LAST)
_READY: Final = (
    *("ping", "log", "etcd", "etcd-readiness", "informer-sync"),
    *(*_HOOKS, "autoregister-completion", *_LAST, "shutdown"),
)
_CHECKS: Final = {"healthz": _LIVE, "livez": _LIVE, "readyz": _READY}
HEALTH_PATHS: Final = tuple(f"/{name}" for name in _CHECKS)


def is_health(path: str) -> bool:
    """Return whether a path is one of these, or one of their single checks."""
    return path[1:].partition("/")[0] in _CHECKS


def serve_health(path: str, request: Request) -> Response:
    """The answer: `ok`, or every check when `verbose`; 404 for a check that there is not."""
    base, _, check = path[1:].partition("/")
    known = _CHECKS[base]
    if check:
        return _text("ok") if check in known else Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
    if "verbose" not in request.params:
        return _text("ok")
    left_out = set(request.params.all("exclude"))
    lines = [f"[+]{name} {'excluded: ' if name in left_out else ''}ok\n" for name in known]
    if strange := sorted(left_out.difference(known)):
        quoted = ",".join(f'"{name}"' for name in strange)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}\n")
    return _text(f"{''.join(lines)}{base} check passed\n")


def _text(text: str) -> Response:
    return Response(200, text.encode(), "text/plain; charset=utf-8")
