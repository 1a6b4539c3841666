"""The alerts of backups: they use metrics that exist, and each has a runbook."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest
from steersman import Key
from steersman.metrics import REGISTRY

from mysqlcluster.backup import metrics
from mysqlcluster.gauges import GAUGES

PROJECT = Path(__file__).parents[2]
RULES = [
    rule
    for group in yaml.safe_load((PROJECT / "config/alerts/backups.yaml").read_text())["spec"]["groups"]
    for rule in group["rules"]
]


@pytest.fixture
def exported():
    key = Key("shop", "db")
    metrics.record(key, 60.0, 1.0, 0, ready=True)
    metrics.count("Failed")
    yield generate_latest(REGISTRY).decode()
    GAUGES.forget(key)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_uses_metrics_and_labels_that_exist_and_has_a_runbook(rule, exported: str):
    names = re.findall(r"steersman_\w+", rule["expr"])
    assert names
    for name in names:
        assert re.search(rf"^{name}\b", exported, re.MULTILINE), name
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^## (\w+)$", (PROJECT / page).read_text(), re.MULTILINE)
    assert anchor in [heading.lower() for heading in headings]
    assert anchor == rule["alert"].lower()


def test_metrics_of_a_cluster_without_backups_are_removed():
    key = Key("shop", "other")
    metrics.record(key, None, None, 0, ready=False)
    text = generate_latest(REGISTRY).decode()
    assert 'steersman_mysql_backup_ready{cluster="other"' in text
    assert 'backup_age_seconds{cluster="other"' not in text
    metrics.forget(key)
    assert 'cluster="other"' not in generate_latest(REGISTRY).decode()
