"""Monitoring of an operator by its metrics: ServiceMonitor, alerts, and a Grafana dashboard.

Scrapes verify the certificate with the CA in the operator's Secret and the name of its Service.
"""

from __future__ import annotations

import json
from typing import Any, Final

from steersman.manifests.deployment import metrics_secret
from steersman.manifests.packaging import Package, labels, metadata

__all__ = ["alerts", "dashboard", "service_monitor"]

_API: Final = "monitoring.coreos.com/v1"
_TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path


def service_monitor(package: Package) -> dict[str, Any]:
    """Return a ServiceMonitor; its scraper needs the ClusterRole `<name>-metrics-reader`."""
    return {
        "apiVersion": _API,
        "kind": "ServiceMonitor",
        "metadata": metadata(package, package.name),
        "spec": {
            "endpoints": [
                {
                    "bearerTokenFile": _TOKEN,
                    "path": "/metrics",
                    "port": "metrics",
                    "scheme": "https",
                    "tlsConfig": {
                        "ca": {"secret": {"key": "ca.crt", "name": metrics_secret(package)}},
                        "serverName": f"{package.metrics_service}.{package.home}.svc",
                    },
                }
            ],
            "selector": {"matchLabels": {**labels(package), "app.kubernetes.io/component": "metrics"}},
        },
    }


def alerts(package: Package) -> dict[str, Any]:
    """Return a PrometheusRule; every alert has the problem and the place to look at."""
    job = f'job="{package.metrics_service}",namespace="{package.home}"'
    rules = [
        _alert(
            "Absent", f"absent(up{{{job}}} == 1)", "5m", "critical",
            "No replica of {name} can be scraped.",
            "Look at the Pods of the Deployment {name} in {home}, and at the targets of Prometheus.",
        ),
        _alert(
            "NoLeader", f"sum(leader_election_master_status{{{job}}}) < 1", "5m", "critical",
            "No replica of {name} leads: nothing is reconciled.",
            "Look at the Lease {name} in {home} and at the logs of the Pods.",
        ),
        _alert(
            "ReconcileErrors",
            f"sum by (controller) (rate(controller_runtime_reconcile_errors_total{{{job}}}[10m]))"
            f" / sum by (controller) (rate(controller_runtime_reconcile_total{{{job}}}[10m])) > 0.1",
            "15m", "warning",
            "More than a tenth of the reconciles of {{{{ $labels.controller }}}} fail.",
            "The errors are in the logs of the leader, and in Events of the objects.",
        ),
        _alert(
            "QueueIsFilling",
            f"sum by (controller) (workqueue_depth{{{job}}}) > 100"
            f" and sum by (controller) (deriv(workqueue_depth{{{job}}}[15m])) > 0",
            "15m", "warning",
            "The queue of {{{{ $labels.controller }}}} grows faster than it is worked off.",
            "Give the controller more workers, or find out what makes its reconciles slow.",
        ),
        _alert(
            "ReconcileHangs", f"max by (controller) (workqueue_longest_running_processor_seconds{{{job}}}) > 600", "5m",
            "warning",
            "A reconcile of {{{{ $labels.controller }}}} has run for more than ten minutes.",
            "Give the controller a timeout, and look for calls that have none.",
        ),
        _alert(
            "LoopStalls", f"increase(steersman_loop_stalls_total{{{job}}}[15m]) > 3", "0m", "warning",
            "The event loop of {name} is blocked again and again.",
            "The log has the stacks: move blocking calls into plain functions, which run in threads.",
        ),
        _alert(
            "ApiErrors",
            f'sum(rate(rest_client_requests_total{{{job},code=~"5..|429"}}[10m]))'
            f" / sum(rate(rest_client_requests_total{{{job}}}[10m])) > 0.05",
            "15m", "warning",
            "The API server refuses more than a twentieth of the requests of {name}.",
            "Look at the API server's health, and at its priority and fairness settings.",
        ),
    ]  # fmt: skip
    if package.serves_webhooks:
        rules.append(
            _alert(
                "WebhookErrors",
                f'sum by (webhook) (rate(controller_runtime_webhook_requests_total{{{job},code=~"5.."}}[10m])) > 0',
                "10m", "critical",
                "The webhook {{{{ $labels.webhook }}}} fails.",
                "Writes of its kind may be refused for that; the errors are in the logs of all replicas.",
            )
        )  # fmt: skip
    for rule in rules:
        rule["alert"] = _words(package.name) + rule["alert"]
        # The expressions drop the label, and routes of Alertmanager select alerts by it.
        rule["labels"]["namespace"] = package.home
        for key, text in rule["annotations"].items():
            rule["annotations"][key] = text.format(name=package.name, home=package.home)
    groups = [{"name": package.name, "rules": rules}]
    return {
        "apiVersion": _API,
        "kind": "PrometheusRule",
        "metadata": metadata(package, package.name),
        "spec": {"groups": groups},
    }


def _words(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _alert(name: str, expression: str, after: str, severity: str, summary: str, description: str) -> dict[str, Any]:
    return {
        "alert": name,
        "annotations": {"description": description, "summary": summary},
        "expr": expression,
        "for": after,
        "labels": {"severity": severity},
    }


def _sum(metric: str, by: str, combine: str = "sum") -> str:
    return f"{combine} by ({by}) ({metric}{{%s}})"


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{%s}}[$__rate_interval]))"


def _slow(metric: str, by: str) -> str:
    return f"histogram_quantile(0.99, sum by ({by}, le) (rate({metric}_bucket{{%s}}[$__rate_interval])))"


_BUSY: Final = (
    _sum("controller_runtime_active_workers", "controller")
    + " / "
    + _sum("controller_runtime_max_concurrent_reconciles", "controller")
)
_BY: Final = "{{controller}}"
_PANELS: Final = (
    (
        "Reconciles",
        _rate("controller_runtime_reconcile_total", "controller, result"),
        "{{controller}} {{result}}",
        "ops",
    ),
    ("Time of a reconcile (99 %)", _slow("controller_runtime_reconcile_time_seconds", "controller"), _BY, "s"),
    ("Keys that wait", _sum("workqueue_depth", "controller"), _BY, "short"),
    ("Wait for a worker (99 %)", _slow("workqueue_queue_duration_seconds", "controller"), _BY, "s"),
    ("Workers that are busy", _BUSY, _BY, "percentunit"),
    ("Requests to the API server", _rate("rest_client_requests_total", "method, code"), "{{method}} {{code}}", "reqps"),
    ("Time of a request (99 %)", _slow("rest_client_request_duration_seconds", "verb"), "{{verb}}", "s"),
    ("Leaders", _sum("leader_election_master_status", "pod"), "{{pod}}", "short"),
    ("Objects in the caches", _sum("steersman_informer_objects", "pod"), "{{pod}}", "short"),
    ("Silence of watches", _sum("steersman_informer_lag_seconds", "pod", "max"), "{{pod}}", "s"),
)
_ADMISSION: Final = "controller_runtime_webhook"
_WEBHOOK_PANELS: Final = (
    ("Admission requests", _rate(f"{_ADMISSION}_requests_total", "webhook, code"), "{{webhook}} {{code}}", "reqps"),
    ("Time of an admission (99 %)", _slow(f"{_ADMISSION}_latency_seconds", "webhook"), "{{webhook}}", "s"),
)


def dashboard(package: Package) -> str:
    """Return a dashboard as JSON for Grafana 10 or later; its data source and namespace are variables."""
    wanted = _PANELS + (_WEBHOOK_PANELS if package.serves_webhooks else ())
    where = f'job="{package.metrics_service}",namespace="$namespace"'
    panels: list[Any] = [
        {
            "id": number + 1,
            "title": title,
            "type": "timeseries",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "fieldConfig": {"defaults": {"min": 0, "unit": unit}, "overrides": []},
            "gridPos": {"h": 8, "w": 12, "x": number % 2 * 12, "y": number // 2 * 8},
            "targets": [{"expr": expression.replace("%s", where), "legendFormat": legend, "refId": "A"}],
        }
        for number, (title, expression, legend, unit) in enumerate(wanted)
    ]
    variables = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        {
            "name": "namespace",
            "label": "Namespace",
            "type": "textbox",
            "query": package.home,
            "current": {"text": package.home, "value": package.home},
        },
    ]
    found: dict[str, Any] = {
        "title": f"{package.name} operator",
        "uid": f"steersman-{package.name}"[:40],
        "tags": ["kubernetes", "operator", "steersman"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    }
    return json.dumps(found, indent=2, sort_keys=True) + "\n"
