"""Alerts and the dashboard: their metrics exist, and each alert has a runbook."""

from __future__ import annotations

import importlib
import json
import re
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
DASHBOARD = json.loads((PROJECT / "config/alerts/dashboard.json").read_text())
RULES = [rule for group in ALERTS["spec"]["groups"] for rule in group["rules"]]
NAMES = re.compile(r"\bsteersman_mysql_[a-z_]+\b")


def metrics() -> set[str]:
    """The names of the operator's metrics; importing the operator declares them."""
    importlib.import_module("mysqlcluster.controllers")
    found: list[Metric] = list(REGISTRY.collect())
    return {metric.name for metric in found if metric.name.startswith("steersman_mysql_")}


def exported() -> set[str]:
    names = metrics()
    return names | {f"{name}_total" for name in names} | {f"{name}_bucket" for name in names}


def used(expression):
    without_labels = re.sub(r"\{[^}]*\}", "", expression)
    return {name for name in NAMES.findall(without_labels) if name.startswith("steersman_")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_has_metrics_that_exist_and_a_runbook(rule):
    assert used(rule["expr"])
    assert used(rule["expr"]) <= exported()
    _, _, anchor = rule["annotations"]["runbook_url"].partition("docs/runbooks.md#")
    headings = re.findall(r"^## (\w+)$", (PROJECT / "docs/runbooks.md").read_text(), re.MULTILINE)
    assert anchor == rule["alert"].lower()
    assert rule["alert"] in headings


def test_the_dashboard_shows_metrics_that_exist_and_all_of_the_operator():
    shown = set().union(*(used(target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]))
    assert shown <= exported()
    assert {name.removesuffix("_total").removesuffix("_bucket") for name in shown} == metrics()


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
