"""Alerts and the dashboard: their metrics exist, and each alert has a runbook."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from rocketmq.metrics import RocketMQMetrics

PROJECT = Path(__file__).parent.parent
ALERTS = yaml.safe_load((PROJECT / "config/brokers/alerts.yaml").read_text())
DASHBOARD = json.loads((PROJECT / "config/brokers/dashboard.json").read_text())
RULES = [rule for group in ALERTS["spec"]["groups"] for rule in group["rules"]]
SCRIPT = importlib.util.spec_from_file_location("draw_dashboard", PROJECT / "hack/draw_dashboard.py")
assert SCRIPT is not None
assert SCRIPT.loader is not None
draw_dashboard = importlib.util.module_from_spec(SCRIPT)
SCRIPT.loader.exec_module(draw_dashboard)
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


def test_prometheus_accepts_the_alerts_and_the_queries_of_the_dashboard(tmp_path: Path):
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed")
    variables = {"namespace": "shop", "broker": "mq"}
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    recorded = [
        {"record": f"dashboard:query_{number}", "expr": draw_dashboard.substituted(query, variables)}
        for number, query in enumerate(queries)
    ]
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": [*ALERTS["spec"]["groups"], {"name": "dashboard", "rules": recorded}]}))
    done = subprocess.run([tool, "check", "rules", str(rules)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_picture_of_the_dashboard_has_a_part_for_each_panel():
    points = [(0.0, 1.0), (2.0, 3.0)]
    html = draw_dashboard.page([(panel, [("a<b", points)]) for panel in DASHBOARD["panels"]])
    assert html.count("<section>") == len(DASHBOARD["panels"])
    assert html.count("<polyline") == sum(panel["type"] == "timeseries" for panel in DASHBOARD["panels"])
    assert "a<b" not in html
    assert draw_dashboard.rounded_up(3.0) == 5.0
    assert draw_dashboard.without_gaps([(0, 1), (2, 1), (20, 1), (22, 1)]) == [[(0, 1), (2, 1)], [(20, 1), (22, 1)]]


def test_the_picture_of_the_dashboard_exists():
    """`python hack/draw_dashboard.py` draws it again."""
    picture = draw_dashboard.PICTURE.read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_no_time_of_a_chart_is_outside_of_its_picture():
    points = [(float(at), 1.0) for at in range(0, 392, 2)]
    chart = draw_dashboard.lines([("all", points)], "s")
    places = [float(x) for x in re.findall(r'<text x="([\d.]+)" y="\d+" text-anchor="middle"', chart)]
    assert len(places) == 7
    assert max(places) <= draw_dashboard.WIDTH - 24
