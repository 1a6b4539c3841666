"""Options of the command line, derived from the declarations of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter
from typing import Annotated, Any

import typer

from steersman.operator.settings import SETTINGS, Setting

__all__ = ["setting_parameters"]


def setting_parameters() -> Iterator[Parameter]:
    """Return a parameter for each setting, named like its field, in the order of their groups."""
    groups = list(dict.fromkeys(setting.group for setting in SETTINGS.values()))
    for setting in sorted(SETTINGS.values(), key=lambda setting: groups.index(setting.group)):
        yield Parameter(setting.name, Parameter.KEYWORD_ONLY, annotation=_annotation(setting), default=None)


def _annotation(setting: Setting) -> Any:
    option = typer.Option(
        *_spellings(setting),
        help=_help(setting),
        metavar=setting.metavar or ("DURATION" if setting.is_duration else None),
        show_default=False,
        rich_help_panel=setting.group,
    )
    kind: Any = str if setting.is_duration else list[str] if setting.is_list else setting.type
    return Annotated[kind | None, option]


def _spellings(setting: Setting) -> tuple[str, ...]:
    name = setting.option
    if setting.is_switch:
        return (f"{name}/--no-{name.removeprefix('--')}",)
    return (name, setting.short) if setting.short else (name,)


def _help(setting: Setting) -> str:
    repeated = " May be repeated." if setting.is_list else ""
    default = setting.default_help or setting.default_text
    return f"{setting.help}{repeated}" + (f" Default: {default}." if default else "")
