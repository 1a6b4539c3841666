"""`steersman run`: runs one replica of an operator in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steersman.cli.run.options import run_parser

__all__ = ["run"]


def run(words: Sequence[str]) -> int:
    """Run an operator until a signal and return the exit code.

    Args:
        words: The words of the command line after `run`.

    Raises:
        SystemExit: The words contain `--help`, or they are wrong.
        LoadError: The operator cannot be loaded, or none is named.
        SettingsError: The settings cannot be used.
    """
    arguments = run_parser().arguments(words)
    if arguments.reload:
        from steersman.cli.run.reload import supervise

        return supervise(["run", *words], Path.cwd())
    from steersman.cli.project import project_operator
    from steersman.cli.run.replica import run_replica
    from steersman.client.config.incluster import is_in_cluster
    from steersman.operator.settings import load_settings

    target = arguments.target or project_operator()
    given: dict[str, Any] = dict(arguments.options)
    if arguments.all_namespaces:
        given |= {"namespaces": (), "namespace_selector": ""}
    if arguments.debug:
        given["log_level"] = "debug"
    if given["webhook_mode"] is None and is_in_cluster(os.environ):
        given["webhook_mode"] = "cluster"
    config = Path(arguments.config) if arguments.config else None
    return run_replica(target, load_settings(given, os.environ, config))
