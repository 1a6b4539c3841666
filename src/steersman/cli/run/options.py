"""The options of `steersman run`, derived from the declarations of the settings.

argparse parses them, because every Pod of an operator runs this command: it loads in a few milliseconds.
"""

from __future__ import annotations

import os
import sys
from argparse import Action, ArgumentParser, BooleanOptionalAction, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, NoReturn

from steersman.operator.settings import SETTINGS, Setting

__all__ = ["OPERATOR_HELP", "RunArguments", "run_parser"]

OPERATOR_HELP: Final = "The operator, as in helloapp:operator; that of the project in this directory if left out."
_MAX_HELP_COLUMNS: Final = 120
_DEFAULT_COLUMNS: Final = 80
_DESCRIPTION: Final = """\
Run an operator against a cluster, in this process.

Stops cleanly on Ctrl-C and SIGTERM: running reconciles finish, the lease is released. Ctrl-C twice aborts.
Every setting is an option, a variable (STEERSMAN_WORKERS=8) and a key of the settings file (workers = 8).

Examples:
  steersman run helloapp:operator
  steersman run helloapp:operator --reload -n dev --log-level debug
  steersman run helloapp:operator --context staging --dry-run --no-leader-elect
  steersman run helloapp:operator --namespace-selector team=payments
"""


class RunArguments:
    """The arguments of one `steersman run`.

    Attributes:
        target: The operator as `module:attribute`; `None` if left out.
        options: The given settings as text, switches as booleans, by the name of the field; `None` means not given.
        all_namespaces: Whether `--all-namespaces` is given.
        debug: Whether `--debug` is given.
        config: The settings file, or `None`.
        reload: Whether `--reload` is given.
    """

    target: str | None = None
    all_namespaces: bool
    debug: bool
    config: str | None
    reload: bool

    def __init__(self, target: str | None, parsed: dict[str, Any]) -> None:
        self.target = target
        self.options: dict[str, Any] = {name: parsed[name] for name in SETTINGS}
        self.all_namespaces = parsed["all_namespaces"]
        self.debug = parsed["debug"]
        self.config = parsed["config"]
        self.reload = parsed["reload"]


class _RunParser(ArgumentParser):
    def arguments(self, words: Sequence[str]) -> RunArguments:
        """Parse the words after `run`; prints help or an error and raises `SystemExit` for `--help` or wrong words."""
        # argparse would take an optional positional argument as left out if an option comes first.
        parsed, others = self.parse_known_args(words)
        for word in others:
            if word.startswith("-") and word != "--":
                self._refuse_option(word.partition("=")[0])
        targets = [word for word in others if word != "--"]
        if len(targets) > 1:
            self.error(f"got more than one operator: {' '.join(targets)}")
        arguments = RunArguments(targets[0] if targets else None, vars(parsed))
        if arguments.all_namespaces and (arguments.options["namespaces"] or arguments.options["namespace_selector"]):
            self.error("--all-namespaces excludes --namespace and --namespace-selector")
        return arguments

    def options(self) -> Sequence[Action]:
        """Return the actions of all options."""
        return [action for action in self._actions if action.option_strings]

    def error(self, message: str) -> NoReturn:
        """Print the error and the way to the help to stderr, and exit with code 2."""
        self.exit(2, f"{self.format_usage()}Try 'steersman run --help' for help.\nerror: {message}\n")

    def _refuse_option(self, option: str) -> NoReturn:
        import difflib  # Only errors need it.

        known = [name for action in self.options() for name in action.option_strings]
        close = difflib.get_close_matches(option, known, n=1)
        self.error(f"No such option: {option}" + (f"; did you mean {close[0]}?" if close else ""))


@cache
def _terminal_columns() -> int:
    """Return the width of the terminal, as `shutil` does, which loads all compression modules.

    argparse makes a formatter for each option.
    """
    with suppress(KeyError, ValueError):
        return int(os.environ["COLUMNS"])
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr] - see AttributeError
    return _DEFAULT_COLUMNS


class _HelpFormatter(RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        width = min(_terminal_columns() - 2, _MAX_HELP_COLUMNS)
        super().__init__(prog, max_help_position=34, width=width)


def run_parser() -> _RunParser:
    """Return the parser of `steersman run`, with an option for each setting, in the order of their groups."""
    parser = _RunParser(
        prog="steersman run",
        usage="steersman run [OPTIONS] [MODULE:OPERATOR]",
        description=_DESCRIPTION,
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument_group("MODULE:OPERATOR", OPERATOR_HELP)
    parser.add_argument(
        "--config", metavar="FILE", help="Settings file: TOML, YAML or JSON. Options and variables override it."
    )
    parser.add_argument("--reload", action="store_true", help="Restart the operator when its files change.")
    parser.add_argument("--debug", action="store_true", help="Log level debug, and tracebacks of errors.")
    for title in dict.fromkeys(setting.group for setting in SETTINGS.values()):
        group = parser.add_argument_group(title)
        for setting in SETTINGS.values():
            if setting.group == title:
                names = (setting.option, setting.short) if setting.short else (setting.option,)
                group.add_argument(*names, dest=setting.name, help=_help(setting), **_form(setting))
        if title == "Namespaces":
            group.add_argument(
                "--all-namespaces", "-A", action="store_true", help="Work in all namespaces (the default)."
            )
    return parser


def _form(setting: Setting) -> dict[str, Any]:
    if setting.is_switch:
        return {"action": BooleanOptionalAction}
    form: dict[str, Any] = {"action": "append"} if setting.is_list else {}
    if setting.choices:
        return form | {"metavar": "|".join(setting.choices)}
    default = "DURATION" if setting.is_duration else "NUMBER" if setting.type is int else "TEXT"
    return form | {"metavar": setting.metavar or default}


def _help(setting: Setting) -> str:
    repeated = " May be repeated." if setting.is_list else ""
    default = setting.default_help or setting.default_text
    return (f"{setting.help}{repeated}" + (f" Default: {default}." if default else "")).replace("%", "%%")
