"""`/metrics` without prometheus-client: the same text as with it."""

import math
import subprocess
import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from steersman.telemetry.exposition import render
from steersman.telemetry.families import Family
from steersman.telemetry.metrics import Metric as PlainMetric
from steersman.telemetry.metrics import Number


class OfFamilies(Collector):
    def __init__(self, families):
        self.families = families

    def collect(self):
        for family in self.families:
            metric = Metric(family.name, family.documentation, family.kind)
            for sample in family.samples:
                metric.add_sample(sample.name, sample.labels, sample.value)
            yield metric


def rendered_by_the_library(families):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(OfFamilies(families))
    return generate_latest(registry)


NUMBERS = [0, 1, 3, 0.1, -2.5, 1e-9, 999_999, 1_000_000, 1_234_567.5, 1e16, 1e300, 1_700_000_000.25, -1e7]
TEXTS = ["App", "", 'quoted "word"', "two\nlines", "back\\slash", "Grüße", "{}", "a,b=c"]


@pytest.mark.parametrize("number", [*NUMBERS, math.inf, -math.inf, math.nan])
def test_a_number_is_written_as_the_library_writes_it(number):
    family = Family("gauge", "shop_load", "The load.")
    family.add((), number)
    assert render([family]) == rendered_by_the_library([family])


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_escaped_as_the_library_escapes_it(text):
    family = Family("counter", "shop_orders", f"Orders of {text}.", ["zone", "kind"])
    family.add(["north", text], 2)
    assert render([family]) == rendered_by_the_library([family])


def test_a_histogram_is_written_as_the_library_writes_it():
    family = Family("histogram", "shop_backup_seconds", "Duration.", ["shop"])
    family.add_histogram(["north"], [("0.5", 1), ("10.0", 3), ("+Inf", 4)], 17.25)
    assert render([family]) == rendered_by_the_library([family])
    assert b'shop_backup_seconds_bucket{le="+Inf",shop="north"} 4.0' in render([family])


def test_the_metrics_of_steersman_are_written_as_the_library_writes_them():
    program = """
from prometheus_client import generate_latest
import steersman.metrics
from steersman.cache.metrics import InformerMetrics
from steersman.client.metrics import HostMetrics
from steersman.telemetry.exposition import render
from steersman.telemetry.metrics import collect
steersman.metrics._framework_modules()
InformerMetrics("Pod", "default").observe(objects=lambda: 3, stored=lambda: 1e7, last=lambda: 1.5, lag=lambda: 0.25)
HostMetrics("https://localhost").done(200, "GET", 0.02)
assert render(collect()) == generate_latest(steersman.metrics.REGISTRY)
print(len(collect()))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(done.stdout) > 30


SCRAPE = """
import sys
import steersman.controller.metrics
from steersman.telemetry.exposition import exposition
{before}
body, content_type = exposition({accept!r})
print(content_type.partition(";")[0], "prometheus_client" in sys.modules, body.count(b"shop_open"))
"""
PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
OWN = "from steersman.metrics import gauge; gauge('shop_open', 'Open shops.').set(2)"


@pytest.mark.parametrize(
    ("before", "accept", "expected"),
    [
        ("", PROMETHEUS, "text/plain False 0"),
        ("", "", "text/plain False 0"),
        ("", "application/openmetrics-text; version=1.0.0", "application/openmetrics-text True 0"),
        (OWN, PROMETHEUS, "application/openmetrics-text True 3"),
        (OWN, "text/plain", "text/plain True 3"),
    ],
)
def test_a_scrape_loads_the_library_only_where_it_is_needed(before, accept, expected):
    program = SCRAPE.format(before=before, accept=accept)
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == expected


def test_values_are_kept_by_labels():
    metric = PlainMetric("counter", "shop_things_total", "Things.", ("kind",), Number)
    count = metric.labels("App")
    count.inc()
    count.value += 2
    metric.labels("Pod").inc()
    assert metric.labels("App") is count
    lines = render(metric.collect()).decode()
    assert 'shop_things_total{kind="App"} 3.0' in lines
    assert 'shop_things_total{kind="Pod"} 1.0' in lines
    metric.remove("Pod")
    assert "Pod" not in render(metric.collect()).decode()
    with pytest.raises(ValueError, match="has the labels kind, not 2 of them"):
        metric.labels("App", "more")


def test_a_gauge_may_be_read_at_each_scrape():
    shelves = Number()
    shelves.set_function(iter([4, 5]).__next__)
    assert [shelves.current(), shelves.current()] == [4, 5]
