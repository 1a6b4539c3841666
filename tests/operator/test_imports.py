"""The modules that an operator loads before its first reconcile: a new one costs every user time and memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

NOT_LOADED = {
    "aiohttp": "WebSockets, OIDC tokens and proxies",
    "cryptography": "certificates that webhooks and the metrics server create",
    "prometheus_client": "metrics that an operator declares",
    "pydantic": "pydantic models of a user",
    "pygments": "tracebacks of rich",
    "pyreqwest": "proxies",
    "rich": "the command line on a terminal",
    "typer": "the command line",
    "yaml": "kubeconfig files",
}
"""Packages, and the features that load them when they are used first."""

PROGRAMS = {
    "the operator API": "from steersman import Context, Model, Operator, Resource",
    "logs as JSON": "from steersman.telemetry.log import configure; configure(format='json')",
    "logs on a terminal": "from steersman.telemetry.log import configure; configure(format='console')",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_packages_of_unused_features_are_not_loaded(program: str):
    script = f"{PROGRAMS[program]}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    loaded = set(output.split())
    assert {name: NOT_LOADED[name] for name in loaded & NOT_LOADED.keys()} == {}
