"""The packages that the operator does not load at its start: each would take megabytes of its memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NOT_LOADED = {
    "aiohttp": "WebSockets, OIDC tokens and proxies",
    "cryptography": "certificates of webhooks, which child processes create",
}
"""Packages, and what uses them."""

PROGRAM = "import sys, rocketmq; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


def test_packages_that_the_operator_does_not_need_are_not_loaded():
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=Path(__file__).parents[1], check=True, capture_output=True, text=True
    ).stdout
    loaded = set(output.split())
    assert {name: NOT_LOADED[name] for name in loaded & NOT_LOADED.keys()} == {}
