"""`Setting`: one setting, with its names in all sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["PREFIX", "Group", "Seconds", "Setting", "SettingsError", "declared"]

PREFIX: Final = "STEERSMAN_"
"""The prefix of all environment variables."""

Group: TypeAlias = Literal[
    "Cluster",
    "Namespaces",
    "Controllers",
    "Leader election",
    "Probes and metrics",
    "Webhooks",
    "Logs and traces",
    "Process",
]

Seconds: TypeAlias = float
"""A duration. Sources may write `15`, `2.5`, `15s`, `1m30s`, `250ms` or `1h`."""


class SettingsError(ValueError):
    """A setting cannot be used; the message names its source, the problem and the accepted values."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of one setting.

    Attributes:
        help: What the setting does, in one or two sentences.
        group: The heading in `--help` and on the reference page.
        option: The option of `steersman run`; by default the name with hyphens.
        short: The short option.
        metavar: The placeholder of the value in `--help`.
        default_help: The default in words, where the value does not say it.
        name: The name of the field of `Settings`.
        type: The type of the field, without `None`.
        default: The default.
    """

    help: str
    group: Group
    option: str = ""
    short: str = ""
    metavar: str = ""
    default_help: str = ""
    name: str = ""
    type: Any = str
    default: Any = None

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()

    @property
    def key(self) -> str:
        """The key in a settings file, where `_` may stand for `-`."""
        return self.name.replace("_", "-")

    @property
    def is_switch(self) -> bool:
        """Whether the option has no value."""
        return self.type is bool

    @property
    def is_list(self) -> bool:
        """Whether the option may be repeated."""
        return get_origin(self.type) is tuple

    @property
    def is_duration(self) -> bool:
        """Whether the value is a number of seconds or a text such as `15s`."""
        return self.type is float

    @property
    def default_text(self) -> str:
        """The default as a source would write it; empty if there is none."""
        if self.default is None or self.default in ("", ()):
            return ""
        if isinstance(self.default, bool):
            return "on" if self.default else "off"
        return _duration_text(self.default) if self.is_duration else str(self.default)

    @property
    def choices(self) -> tuple[str, ...]:
        """The accepted values, if they are few."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()


def declared(model: type[msgspec.Struct]) -> Mapping[str, Setting]:
    """Return the settings that the annotations of a struct declare, by field name.

    Raises:
        TypeError: A field has no `Setting`.
    """
    hints = get_type_hints(model, include_extras=True)
    settings: dict[str, Setting] = {}
    for field in msgspec.structs.fields(model):
        hint = hints[field.name]
        marks = [mark for mark in get_args(hint)[1:] if isinstance(mark, Setting)] if _is_annotated(hint) else []
        if len(marks) != 1:
            raise TypeError(f"{model.__name__}.{field.name}: annotate it with one Setting(help=…, group=…)")
        settings[field.name] = replace(
            marks[0],
            name=field.name,
            option=marks[0].option or f"--{field.name.replace('_', '-')}",
            type=_without_none(get_args(hint)[0]),
            default=field.default,
        )
    return settings


def _duration_text(seconds: float) -> str:
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _is_annotated(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def _without_none(hint: Any) -> Any:
    parts = [part for part in get_args(hint) if part is not type(None)]
    return parts[0] if type(None) in get_args(hint) and len(parts) == 1 else hint
