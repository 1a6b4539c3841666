"""Runs SidecarSet on an embedded cluster, scrapes it with Prometheus, and draws its dashboard as a picture.

    python hack/dashboard.py FILE [--seconds 240]

The panels, queries and units are those that `steersman manifests --dashboard` writes for Grafana.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from panels import Panel, drawn, free_port, panel_of, process, prometheus, wait_serving

from steersman.cli.operator_loader import load_operator
from steersman.manifests import Package
from steersman.manifests.monitoring import dashboard
from steersman.testing import Cluster, EmbeddedCluster

__all__ = ["record"]

ROOT: Final = Path(__file__).resolve().parent.parent
PROJECT: Final = ROOT / "operators/sidecarset"


def _workload(cluster: Cluster, seconds: float) -> None:
    """Scale a Deployment up and down, and change the image of the SidecarSet now and then."""
    sidecars: dict[str, Any] = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "SidecarSet",
        "metadata": {"name": "log"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "log", "image": "log:1"}],
        },
    }
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    cluster.apply(sidecars, web)
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        turn += 1
        cluster.scale("deployment", "web", (8, 20, 30, 12)[turn % 4])
        if turn % 3 == 0:
            sidecars["spec"]["containers"][0]["image"] = f"log:{turn}"
            cluster.apply(sidecars)
        time.sleep(min(10.0, max(0.0, end - time.monotonic())))


def record(seconds: float) -> tuple[Panel, ...]:
    """Return the panels of the dashboard with what Prometheus has scraped in so many seconds."""
    operator = load_operator("sidecarset:operator", PROJECT)
    package = Package(operator, target="sidecarset:operator")
    found: dict[str, Any] = json.loads(dashboard(package))
    with tempfile.TemporaryDirectory() as temporary, EmbeddedCluster.start() as cluster:
        directory = Path(temporary)
        target = f"127.0.0.1:{free_port()}"
        labels = {"job": package.metrics_service, "namespace": package.home, "pod": f"{package.name}-0"}
        words = [sys.executable, "-m", "steersman", "run", "sidecarset:operator", "--kubeconfig", cluster.kubeconfig]
        words += [f"--metrics-bind-address={target}", "--health-probe-bind-address=0", "--lease-namespace=default"]
        words += ["--webhook-bind-address=127.0.0.1:0", "--install-crds"]
        with (
            process(*words, cwd=PROJECT, log=directory / "operator.log"),
            prometheus(directory, [(target, labels)]) as server,
        ):
            wait_serving(f"http://{target}/metrics")
            cluster.create_namespace("shop")
            began = time.time()
            with cluster.test("shop"):
                _workload(cluster, seconds)
            variables = {"namespace": package.home}
            return tuple(panel_of(server, panel, variables, began, time.time()) for panel in found["panels"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the dashboard of an operator from real scrapes.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=240.0, help="how long the operator works")
    options = parser.parse_args()
    options.file.write_text(drawn(record(options.seconds), options.seconds))


if __name__ == "__main__":
    main()
