"""The generated reference of metrics, Events and log messages agrees with what an operator serves and writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from codegen import telemetry
from steersman import Context, Operator, TerminalError
from steersman.k8s import ConfigMap
from steersman.metrics import REGISTRY
from steersman.testing import eventually

DASHBOARD = Path(__file__).parents[2] / "src/steersman/manifests/monitoring.py"
refusing = Operator("refusing")


@refusing.controller(where=lambda found: "refuse" in found.metadata.labels)
async def refuse(found: ConfigMap, ctx: Context) -> None:
    raise TerminalError("no", reason="Refused")


def test_every_metric_of_a_running_operator_is_described(cluster: Any, operator: Any) -> None:
    running = operator(refusing)
    labels = {"refuse": "yes"}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": labels}})
    eventually(lambda: running.reconciles, what="a reconcile")
    served = {(f.name, f.type, tuple(s.labels)) for f in REGISTRY.collect() for s in f.samples[:1]}
    described = {(m.name.removesuffix("_total"), m.type): m.labels for m in telemetry.metrics()}
    of_steersman = {
        one for one in served if one[0].startswith(("controller_runtime", "steersman", "workqueue", "rest"))
    }
    assert len(of_steersman) > 10
    for name, kind, names in of_steersman:
        assert set(names) - {"le"} == set(described[name.removesuffix("_total"), kind]), name


def test_the_dashboard_and_the_alerts_use_described_metrics() -> None:
    used = set(re.findall(r"\b(?:controller_runtime|steersman|workqueue|rest_client)_\w+", DASHBOARD.read_text()))
    known = {m.name for m in telemetry.metrics()}
    prefixes = {name for name in used if any(one.startswith(name) for one in known)}
    assert used
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in used - prefixes} <= known


def test_log_messages_of_the_runtime_are_listed() -> None:
    named = {message.name for message in telemetry.log_messages()}
    assert {"reconcile_failed", "lease_lost", "certificate_rotation_step", "operator_started"} <= named


def test_the_events_that_the_runtime_records_are_listed() -> None:
    assert telemetry.events() == (("Undecodable", "Warning"),)
