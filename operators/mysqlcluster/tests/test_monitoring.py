"""Alerts and the dashboard: their metrics exist, and each alert has a runbook."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from prometheus_client import Metric
from steersman import Key
from steersman.metrics import REGISTRY

from mysqlcluster import metrics as operator_metrics
from mysqlcluster.gauges import GAUGES
from mysqlcluster.machine import ClusterState
from mysqlcluster.observation import MemberState, Observation, Role

PROJECT = Path(__file__).parent.parent
ALERTS = yaml.safe_load((PROJECT / "config/alerts/clusters.yaml").read_text())
SERVER_ALERTS = yaml.safe_load((PROJECT / "config/alerts/server_alerts.yaml").read_text())
DASHBOARD = json.loads((PROJECT / "config/alerts/dashboard.json").read_text())
RULES = [rule for group in ALERTS["spec"]["groups"] for rule in group["rules"]]
SERVER_RULES = [rule for group in SERVER_ALERTS["spec"]["groups"] for rule in group["rules"]]
SERVER_METRIC = re.compile(r"\bmysql_[a-z_]+\b")
NAMES = re.compile(r"\bsteersman_mysql_[a-z_]+\b")


def metrics() -> set[str]:
    """The names of the operator's metrics; importing the operator declares them."""
    importlib.import_module("mysqlcluster.controllers")
    found: list[Metric] = list(REGISTRY.collect())
    return {metric.name for metric in found if metric.name.startswith("steersman_mysql_")}


def exported() -> set[str]:
    names = metrics()
    return names | {f"{name}_total" for name in names} | {f"{name}_bucket" for name in names}


def server_metrics() -> set[str]:
    """The metrics of servers that the alerts and the dashboard use."""
    expressions = [rule["expr"] for rule in SERVER_RULES]
    expressions += [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return {name for each in expressions for name in SERVER_METRIC.findall(re.sub(r"\{[^}]*\}", "", each))}


def used(expression):
    without_labels = re.sub(r"\{[^}]*\}", "", expression)
    return {name for name in NAMES.findall(without_labels) if name.startswith("steersman_")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_has_metrics_that_exist_and_a_runbook(rule):
    assert used(rule["expr"])
    assert used(rule["expr"]) <= exported()
    has_runbook(rule)


@pytest.mark.parametrize("rule", SERVER_RULES, ids=lambda rule: rule["alert"])
def test_an_alert_on_servers_has_a_runbook_and_metrics_of_the_exporter(rule):
    """`tests/test_exporter.py` checks these metrics on real servers."""
    assert SERVER_METRIC.findall(rule["expr"])
    has_runbook(rule)


def has_runbook(rule):
    _, _, anchor = rule["annotations"]["runbook_url"].partition("docs/runbooks.md#")
    headings = re.findall(r"^## (\w+)$", (PROJECT / "docs/runbooks.md").read_text(), re.MULTILINE)
    assert anchor == rule["alert"].lower()
    assert rule["alert"] in headings


def test_the_dashboard_shows_metrics_that_exist_and_all_of_the_operator():
    shown = set().union(*(used(target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert shown <= exported()
    assert {name.removesuffix("_total").removesuffix("_bucket") for name in shown} == metrics()


def test_the_dashboard_shows_each_metric_of_servers_that_an_alert_uses():
    alerts = {name for rule in SERVER_RULES for name in SERVER_METRIC.findall(rule["expr"])}
    panels = " ".join(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])
    assert {name for name in alerts if name not in panels} == set()
    assert alerts < server_metrics()


def test_the_metrics_of_a_cluster_and_of_a_member_go_with_them():
    key = Key("shop", "gone")
    members = (MemberState("gone-0", server_up=True), MemberState("gone-1", role=Role.REPLICA, lag_seconds=1.0))
    operator_metrics.record(key, ClusterState(epoch=1), Observation(members, 0.0))
    labels = {"namespace": "shop", "cluster": "gone", "member": "gone-1"}
    assert REGISTRY.get_sample_value("steersman_mysql_replica_lag_seconds", labels) == 1.0
    operator_metrics.record(key, ClusterState(epoch=1), Observation(members[:1], 0.0))
    assert REGISTRY.get_sample_value("steersman_mysql_replica_lag_seconds", labels) is None
    assert REGISTRY.get_sample_value("steersman_mysql_up", {**labels, "member": "gone-0"}) == 1.0
    GAUGES.keep([Key("shop", "other")])
    left = [
        sample for metric in REGISTRY.collect() for sample in metric.samples if sample.labels.get("cluster") == "gone"
    ]
    assert left == []


def test_a_member_that_does_not_answer_has_no_used_share_of_its_volume():
    key = Key("shop", "silent")
    member = MemberState("silent-0", reachable=True, disk_used_ratio=0.5)
    labels = {"namespace": "shop", "cluster": "silent", "member": "silent-0"}
    operator_metrics.record(key, ClusterState(), Observation((member,), 0.0))
    assert REGISTRY.get_sample_value("steersman_mysql_volume_used_ratio", labels) == 0.5
    operator_metrics.record(key, ClusterState(), Observation((MemberState("silent-0", reachable=False),), 0.0))
    assert REGISTRY.get_sample_value("steersman_mysql_volume_used_ratio", labels) is None
    GAUGES.forget(key)


@pytest.mark.parametrize("result", ["completed", "failed"])
def test_the_number_of_ended_backups_exists_before_the_first_one(result: str):
    """The alert MySQLBackupFailed is on the increase, which a counter that begins with 1 does not have."""
    program = (
        "import mysqlcluster.controllers; from steersman.metrics import REGISTRY; "
        f"print(REGISTRY.get_sample_value('steersman_mysql_backups_total', {{'result': '{result}'}}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "0.0", done.stderr


def test_the_picture_of_the_dashboard_has_its_panels():
    """`python hack/draw_dashboard.py` draws it again."""
    picture = (PROJECT / "docs/dashboard.svg").read_text()
    titles = re.findall(r'font-weight="bold"[^>]*>([^<]+)<', picture)
    assert titles == [panel["title"] for panel in DASHBOARD["panels"]]
    assert "docs/dashboard.svg" in (PROJECT / "README.md").read_text()
