"""Helm, for the charts of the operators."""

from __future__ import annotations

import json
import os
from typing import Any

from steersman.testing.real_node import RealNode
from tests.node.commands import run
from tests.node.installation import Package
from tests.node.programs import tool


class Helm:
    """Helm with the administrator's kubeconfig, for one release."""

    def __init__(self, node: RealNode, package: Package, release: str) -> None:
        self._env = {**os.environ, "KUBECONFIG": str(node.kubeconfig), "HELM_CACHE_HOME": str(node.directory / "helm")}
        self.package = package
        self.release = release

    def __call__(self, verb: str, *words: str) -> str:
        """Run one verb on the release; it returns when the release is ready."""
        wait = ["--wait", "--timeout=120s"] if verb in ("install", "upgrade", "rollback", "uninstall") else []
        line = [str(tool("helm")), verb, self.release, *words, f"--namespace={self.package.namespace}", *wait]
        return run(*line, env=self._env)

    def install(self) -> None:
        """Install the chart."""
        self("install", str(self.package.chart), "--create-namespace")

    def status(self) -> tuple[str, int]:
        """Return the status and the revision of the release."""
        facts: dict[str, Any] = json.loads(self("status", "--output=json"))
        return facts["info"]["status"], facts["version"]
