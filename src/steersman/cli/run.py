"""`steersman run`: runs one replica of an operator in this process."""

from __future__ import annotations

import os
import sys
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from steersman.cli.setting_options import setting_parameters
from steersman.cli.target import Target

__all__ = ["run"]


def run(target: str, *, config: Path | None, reload: bool, debug: bool, all_namespaces: bool, **options: Any) -> None:
    """Run an operator against a cluster, in this process.

    Stops cleanly on Ctrl-C and SIGTERM: running reconciles finish, the lease is released. Ctrl-C twice aborts.
    Every setting is an option, a variable (`STEERSMAN_WORKERS=8`) and a key of the settings file (`workers = 8`).

    Examples:

        steersman run helloapp:operator

        steersman run helloapp:operator --reload -n dev --log-level debug

        steersman run helloapp:operator --context staging --dry-run --no-leader-elect

        steersman run helloapp:operator --namespace-selector team=payments
    """
    if reload:
        from steersman.cli.reload import supervise

        raise SystemExit(supervise(sys.argv[1:], Path.cwd()))
    from steersman.cli.errors import explain
    from steersman.cli.process import run_replica
    from steersman.client.config.incluster import is_in_cluster
    from steersman.operator.settings import load_settings

    given: dict[str, Any] = {name: value for name, value in options.items() if value != []}
    if all_namespaces:
        if given["namespaces"] or given["namespace_selector"]:
            raise typer.BadParameter("--all-namespaces excludes --namespace and --namespace-selector")
        given |= {"namespaces": (), "namespace_selector": ""}
    if debug:
        given["log_level"] = "debug"
    if given["webhook_mode"] is None and is_in_cluster(os.environ):
        given["webhook_mode"] = "cluster"
    try:
        code = run_replica(target, load_settings(given, os.environ, config))
    except Exception as problem:  # noqa: BLE001 - becomes a message
        code = explain(problem, debug=debug)
    raise SystemExit(code)


def _signature() -> Signature:
    """Return the parameters of `run` as typer reads them: the operator, an option for each setting, and a few more."""

    def parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
        return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    all_namespaces = typer.Option(
        "--all-namespaces", "-A", help="Work in all namespaces (the default).", rich_help_panel="Namespaces"
    )
    debug = typer.Option(
        "--debug", help="Log level debug, and tracebacks of errors.", rich_help_panel="Logs and traces"
    )
    config = typer.Option(help="Settings file: TOML, YAML or JSON. Options and variables override it.")
    reload = typer.Option("--reload", help="Restart the operator when its files change.")
    return Signature(
        [
            parameter("target", Target),
            *setting_parameters(),
            parameter("all_namespaces", Annotated[bool, all_namespaces], False),
            parameter("debug", Annotated[bool, debug], False),
            parameter("config", Annotated[Path | None, config], None),
            parameter("reload", Annotated[bool, reload], False),
        ]
    )


run.__signature__ = _signature()  # type: ignore[attr-defined]
run.__annotations__ = {p.name: p.annotation for p in _signature().parameters.values()}
