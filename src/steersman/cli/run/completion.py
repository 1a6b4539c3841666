"""The entry of `steersman run` in the tree of commands: for its list of commands, and for completion in shells."""

from __future__ import annotations

from argparse import Action
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from steersman.cli.run.options import run_parser
from steersman.cli.target import Target

__all__ = ["run_placeholder"]


def run_placeholder(**options: Any) -> None:
    """Run an operator against a cluster, in this process."""
    raise AssertionError("`steersman run` is parsed by run_options")


def _signature() -> Signature:
    actions = [action for action in run_parser().options() if action.dest != "help"]
    return Signature(
        [
            Parameter("target", Parameter.KEYWORD_ONLY, annotation=Target),
            *(Parameter(one.dest, Parameter.KEYWORD_ONLY, annotation=_option(one), default=None) for one in actions),
        ]
    )


def _option(action: Action) -> Any:
    if action.nargs == 0 and len(action.option_strings) == 2 and action.option_strings[1].startswith("--no-"):
        spellings = ("/".join(action.option_strings),)
    else:
        spellings = tuple(action.option_strings)
    kind: Any = bool if action.nargs == 0 else str
    return Annotated[kind | None, typer.Option(*spellings, help=action.help)]


run_placeholder.__signature__ = _signature()  # type: ignore[attr-defined]
run_placeholder.__annotations__ = {p.name: p.annotation for p in _signature().parameters.values()}
