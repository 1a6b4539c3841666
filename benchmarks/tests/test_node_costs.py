"""The report of the costs of nodes has the measured figures beside their bars."""

from __future__ import annotations

import os

from benchmarks.node_costs import _activity as activity
from benchmarks.node_costs import _descendants as descendants
from benchmarks.node_costs import _memory as memory
from benchmarks.node_costs import report


def test_the_report_has_each_figure_with_its_bar() -> None:
    start = {"bound": 20.0, "prepared": 30.0, "launched": 60.0, "reported": 9.0, "program": 110.0}
    text = report(
        {
            "simulated": {"pods": 10_000.0, "cpu_ms": 1.987, "wall_s": 30.0, "writes": 7.5},
            "start": {**start, "own": 2.0, "namespaces": 1.0, "starts": 20.0},
            "idle": {"processes": 3, "pss_mb": 82.0, "rss_mb": 118.0, "cpu_percent": 0.2, "switches": 5.5},
        }
    )
    assert "| CPU of a simulated Pod, of 10000 | 1.99 ms | ≤ 2 ms |" in text
    assert "| start of a process Pod beyond its own, network namespaces | 108 ms | ≤ 150 ms |" in text
    assert "| memory of an idle cluster with two process nodes | 82 MB | ≤ 120 MB |" in text
    assert "| CPU of the idle cluster | 0.20 % | ≤ 0.5 % |" in text


def test_a_process_has_memory_and_activity_that_can_be_measured() -> None:
    assert os.getpid() in descendants(os.getpid())
    shared, resident = memory(os.getpid())
    assert 0 < shared <= resident
    cpu, switches = activity(os.getpid())
    assert cpu > 0
    assert switches > 0
