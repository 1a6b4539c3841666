"""Programs of other projects on the node: tools that `hack/tools.sh` builds, and files of Go modules."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from steersman.testing.controlplane.process import Component
from steersman.testing.real_node import RealNode
from steersman.testing.real_node.programs import SEARCH_PATH
from tests.node.commands import run

_TOOLS = Path(os.environ.get("STEERSMAN_TOOLS") or Path.home() / ".cache/steersman/tools")


def tool(name: str) -> Path:
    """Return a program that `hack/tools.sh` builds."""
    assert (_TOOLS / name).exists(), f"{name} is missing: sh hack/tools.sh {name}"
    return _TOOLS / name


def module_directory(module: str, version: str) -> Path:
    """Return the directory of a Go module in the module cache, which has the module's manifests."""
    return Path(json.loads(run("go", "mod", "download", "-json", f"{module}@{version}"))["Dir"])


def start_program(
    node: RealNode, name: str, command: Sequence[str | Path], directory: Path, *, env: Mapping[str, str] | None = None
) -> Component:
    """Start a program in the namespaces of the node, as the cluster's administrator; `kill` ends it.

    Args:
        node: The cluster.
        name: The name of the program's log in `directory`.
        command: The program and its arguments.
        directory: A directory for the log.
        env: More variables of the environment.
    """
    variables = {"PATH": SEARCH_PATH, "HOME": str(directory), "KUBECONFIG": str(node.kubeconfig), **(env or {})}
    return Component(name, node.namespaces.inside(command), log=directory / f"{name}.log", env=variables)
