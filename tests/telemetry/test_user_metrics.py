"""`steersman.metrics`: metrics of an operator are declared once, under names that follow the rules."""

import pathlib
import re
import subprocess
import sys

import pytest
from prometheus_client import generate_latest

import steersman
from steersman.metrics import REGISTRY, MetricError, counter, gauge, histogram


def test_metrics_are_served_with_those_of_steersman():
    counter("testshop_backups_total", "Backups that have been completed.", ["shop"]).labels("north").inc()
    gauge("testshop_open_orders", "Orders that are not shipped.").set(3)
    histogram("testshop_backup_duration_seconds", "Duration of a backup.", buckets=[1, 10]).observe(2)
    text = generate_latest(REGISTRY).decode()
    assert 'testshop_backups_total{shop="north"} 1.0' in text
    assert "testshop_open_orders 3.0" in text
    assert 'testshop_backup_duration_seconds_bucket{le="10.0"} 1.0' in text


def test_an_operator_may_use_a_prefix_of_steersman():
    orders = gauge("steersman_testshop_open_orders", "Orders that are not shipped.")
    try:
        orders.set(2)
        assert "steersman_testshop_open_orders 2.0" in generate_latest(REGISTRY).decode()
    finally:
        REGISTRY.unregister(orders)  # the process serves the metrics of other tests, too


def test_every_metric_of_steersman_is_reserved_before_its_module_is_loaded():
    program = """
from steersman.metrics import REGISTRY, MetricError, counter
counter("testshop_first_total", "Loads the modules.")
families = [family for family in REGISTRY.collect() if not family.name.startswith("testshop")]
refused = 0
for family in families:
    try:
        counter(family.name + "_total", "Another metric.")
    except MetricError:
        refused += 1
print(len(families), refused)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    metrics, refused = map(int, done.stdout.split())
    assert metrics == refused > 30


def test_steersman_declares_its_metrics_in_the_modules_that_reserve_them():
    package = pathlib.Path(steersman.__file__).parent
    declaring = re.compile(r"from steersman\.telemetry\.metrics import .*\b(?:counter|gauge|histogram|register)\b")
    found = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if declaring.search(path.read_text())
    }
    assert found == {f"{name}/metrics.py" for name in ("cache", "client", "controller", "operator", "webhook")}


def test_the_same_declaration_returns_the_same_metric():
    first = gauge("testshop_shelves", "Shelves.", ["hall"])
    assert gauge("testshop_shelves", "Shelves.", ["hall"]) is first


@pytest.mark.parametrize(
    "again",
    [
        lambda: gauge("testshop_carts", "Other words.", ["hall"]),
        lambda: gauge("testshop_carts", "Carts.", ["entrance"]),
        lambda: histogram("testshop_carts", "Carts.", ["hall"]),
    ],
)
def test_another_declaration_of_a_name_is_refused(again):
    gauge("testshop_carts", "Carts.", ["hall"])
    with pytest.raises(MetricError, match="'testshop_carts' is declared already"):
        again()


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: gauge("backups", "x"), "snake_case with a prefix"),
        (lambda: gauge("shopBackups_open", "x"), "snake_case with a prefix"),
        (lambda: counter("shop_backups", "x"), "the name of a counter ends in _total"),
        (lambda: gauge("shop_backups_total", "x"), "only counters end in _total"),
        (lambda: histogram("shop_size_sum", "x"), "reserves _sum"),
        (lambda: counter("steersman_events_written_total", "x"), "Steersman has a metric of this name"),
        (lambda: gauge("workqueue_depth", "x"), "Steersman has a metric of this name"),
        (lambda: gauge("shop_open", "x", ["le"]), "le and quantile are reserved"),
        (lambda: gauge("shop_open", "x", ["Hall"]), "label 'Hall'"),
        (lambda: gauge("shop_open", "x", ["hall", "hall"]), "a label is repeated"),
    ],
)
def test_names_that_break_a_rule_are_refused(declare, words):
    with pytest.raises(MetricError, match=words):
        declare()
