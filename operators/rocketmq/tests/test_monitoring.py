"""Alerts and the dashboard: their metrics exist, and each alert has a runbook."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from rocketmq.metrics import RocketMQMetrics

PROJECT = Path(__file__).parent.parent
ALERTS = yaml.safe_load((PROJECT / "config/brokers/alerts.yaml").read_text())
DASHBOARD = json.loads((PROJECT / "config/brokers/dashboard.json").read_text())
RULES = [rule for group in ALERTS["spec"]["groups"] for rule in group["rules"]]
NAMES = re.compile(r"\b(?:steersman_)?rocketmq_[a-z_]+\b")


def exported():
    found = {metric.name for metric in RocketMQMetrics().collect()}
    return found | {f"{name}_total" for name in found if name.endswith("_switches")}


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
    assert {name.removesuffix("_total") for name in shown} | {"steersman_rocketmq_members"} == {
        metric.name for metric in RocketMQMetrics().collect()
    }
