"""The modules that `steersman run` and the operator API may load: each costs every Pod time and memory.

A package that is new here is either needed before the first reconcile, then it belongs into the table with its reason,
or it is loaded where it is used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from steersman.testing import EmbeddedCluster

API = "from steersman import Context, Model, Operator, Resource"

DISTRIBUTIONS = {
    "msgspec": "structs and JSON",
    "zstandard": "compression of cached objects",
}
"""The packages of others that the operator API loads."""
DISTRIBUTIONS_OF_RUN = {
    **DISTRIBUTIONS,
    "google-re2": "patterns",
    "hpack": "headers of HTTP/2",
    "httptools": "HTTP/1.1",
    "PyYAML": "kubeconfig files; a Pod has none",
    "uvloop": "the event loop, where it is installed",
}
"""Those that a process loads until its first reconcile, with a kubeconfig."""
OF_INSTALLED_PACKAGES = {"typing_extensions"}
"""Packages that msgspec imports if another package has installed them."""

PACKAGES = {
    "steersman",
    "steersman.cache",
    "steersman.client",
    "steersman.client.config",
    "steersman.client.transport",
    "steersman.controller",
    "steersman.models",
    "steersman.operator",
    "steersman.pki",
    "steersman.telemetry",
    "steersman.webhook",
}
"""The packages of Steersman that the operator API loads."""
PACKAGES_OF_RUN = PACKAGES | {
    "steersman.cli",
    "steersman.cli.run",
    "steersman.client.transport.http2",
    "steersman.k8s",
    "steersman.operator.leaderelection",
    "steersman.operator.settings",
}
WITHOUT_A_WEBHOOK = {"steersman.webhook", "steersman.webhook.configuration"}
"""The modules of the webhook package that an operator without webhooks loads: its decorators."""
STANDARD_LIBRARY_OF_OTHER_FEATURES = {
    "bz2",
    "difflib",
    "lzma",
    "multiprocessing",
    "sqlite3",
    "tomllib",
    "unittest",
    "xml",
}

APP = """
import json, os, signal, sys
from pathlib import Path
from steersman import Context, Operator
from steersman.k8s import ConfigMap

operator = Operator("modules")

@operator.controller()
async def reconcile(obj: ConfigMap, ctx: Context) -> None:
    Path("modules.json").write_text(json.dumps(sorted(sys.modules)))
    os.kill(os.getpid(), signal.SIGTERM)
"""


def loaded_by(program: str) -> set[str]:
    """Return the names of the modules that a program loads, those of the bare interpreter excluded."""
    script = f"import sys; before = set(sys.modules)\n{program}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def distributions(modules: Iterable[str]) -> set[str]:
    """Return the installed distributions of modules, without those of this repository."""
    owners = packages_distributions()
    found = {name for module in modules for name in owners.get(module.partition(".")[0], ())}
    return found - OF_INSTALLED_PACKAGES - {"steersman", "steersman-cluster", "typing_extensions", "setuptools"}


def packages(modules: Iterable[str]) -> set[str]:
    """Return the packages of Steersman among modules."""
    root = Path(__file__).parents[2] / "src"
    return {
        module
        for module in modules
        if module.partition(".")[0] == "steersman" and root.joinpath(*module.split("."), "__init__.py").exists()
    }


def test_the_operator_api_loads_these_packages_only():
    modules = loaded_by(API)
    assert distributions(modules) == DISTRIBUTIONS.keys()
    assert packages(modules) == PACKAGES
    assert {module for module in modules if module.startswith("steersman.webhook")} == WITHOUT_A_WEBHOOK
    assert "steersman.client.config.kubeconfig" not in modules
    assert modules & STANDARD_LIBRARY_OF_OTHER_FEATURES == set()


def test_the_help_of_run_loads_the_settings_only():
    modules = loaded_by("import steersman.cli.run.options as options; options.run_parser().format_help()")
    assert distributions(modules) == {"msgspec"}
    assert packages(modules) == {
        "steersman",
        "steersman.cli",
        "steersman.cli.run",
        "steersman.operator",
        "steersman.operator.leaderelection",
        "steersman.operator.settings",
    }


@pytest.mark.slow
def test_a_process_loads_these_packages_until_its_first_reconcile(tmp_path: Path):
    (tmp_path / "app_of_modules.py").write_text(APP)
    with EmbeddedCluster.start() as cluster:
        words = ["run", "app_of_modules:operator", f"--kubeconfig={cluster.kubeconfig}", "-n", "default"]
        done = subprocess.run(
            [sys.executable, "-m", "steersman", *words, "--metrics-bind-address=0", "--health-probe-bind-address=0"],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, env=dict(os.environ),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    modules = set(json.loads((tmp_path / "modules.json").read_text())) - {"app_of_modules"}
    assert distributions(modules) <= DISTRIBUTIONS_OF_RUN.keys()
    assert packages(modules) <= PACKAGES_OF_RUN
    assert {module for module in modules if module.startswith("steersman.webhook")} == WITHOUT_A_WEBHOOK
    assert {module for module in modules if module.startswith("steersman.cli.")} <= {
        "steersman.cli.dispatch",
        "steersman.cli.errors",
        "steersman.cli.operator_loader",
        "steersman.cli.project",
        "steersman.cli.run",
        "steersman.cli.run.command",
        "steersman.cli.run.options",
        "steersman.cli.run.replica",
    }
    assert modules & STANDARD_LIBRARY_OF_OTHER_FEATURES == set()
