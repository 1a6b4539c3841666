"""Settings from their sources: options over environment variables over a file over defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from steersman.operator.settings.declaration import PREFIX, Setting, SettingsError
from steersman.operator.settings.model import SETTINGS, Settings
from steersman.operator.settings.values import parse_bool, parse_duration

__all__ = ["load_settings"]

_FILE_VARIABLE: Final = PREFIX + "CONFIG"
_OTHER_VARIABLES: Final = {"COMPILE", "CONFIG", "CONTROLPLANE", "REQUIRE_CONTROLPLANE", "ENVTEST_INDEX"}
"""Variables with the prefix that are not settings."""
_EXCLUSIVE: Final = (("namespaces", "namespace_selector"), ("namespace_selector", "namespaces"))


def load_settings(
    options: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Return the settings from all sources. Later sources in this list are weaker than earlier ones.

    Unknown keys of the file, and variables that resemble a setting, are refused, so that a typing error is reported.

    Args:
        options: Values by the name of the field; `None` means not given.
        environ: Environment variables; lists are separated by commas.
        file: A TOML, YAML or JSON file; by default that of the variable `STEERSMAN_CONFIG`.

    Raises:
        SettingsError: A value or a key cannot be used; the message names the source.
    """
    env = dict(environ or {})
    given = {name: value for name, value in (options or {}).items() if value is not None}
    path = file or (Path(env[_FILE_VARIABLE]) if env.get(_FILE_VARIABLE) else None)
    values: dict[str, Any] = {} if path is None else _from_file(path)
    values.update(_from_environment(env))
    for name, value in given.items():
        if name not in SETTINGS:
            raise SettingsError(f"{name}: there is no such setting")
        values[name] = _read(SETTINGS[name], value, SETTINGS[name].option)
    # An option for the namespaces replaces the other kind of choice from a weaker source.
    for stronger, weaker in _EXCLUSIVE:
        if stronger in given and weaker not in given:
            values.pop(weaker, None)
    settings = Settings(**values)
    settings.check()
    return settings


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in env.items():
        if not variable.startswith(PREFIX) or variable.removeprefix(PREFIX) in _OTHER_VARIABLES:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in SETTINGS:
            values[name] = _read(SETTINGS[name], text, f"environment {variable}")
        elif close := _close_to(name):
            # Other variables with the prefix may belong to the operator or to a tool.
            raise SettingsError(
                f"environment {variable}: there is no such setting; did you mean {SETTINGS[close[0]].variable}?"
            )
    return values


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise SettingsError(f"settings file {path}: {reason}") from None
    data = _parse(path, text)
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise SettingsError(f"settings file {path}: expected keys and values, found {type(data).__name__}")
    values: dict[str, Any] = {}
    for key, value in cast("Mapping[Any, Any]", data).items():
        name = str(key).replace("-", "_")
        if name not in SETTINGS:
            close = _close_to(name)
            hint = f"; did you mean {SETTINGS[close[0]].key}?" if close else ""
            raise SettingsError(f"settings file {path}: there is no setting {key!r}{hint}")
        values[name] = _read(SETTINGS[name], value, f"settings file {path}: {key}")
    return values


def _close_to(name: str) -> list[str]:
    """Return the setting that a wrong name resembles most, or nothing."""
    import difflib  # Only errors need it.

    return difflib.get_close_matches(name, SETTINGS, n=1)


def _parse(path: Path, text: str) -> Any:
    if path.suffix == ".toml":
        import tomllib

        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise SettingsError(f"settings file {path}: {problem}") from None
    if path.suffix in (".yaml", ".yml", ".json"):
        import yaml

        from steersman import documents

        try:
            return documents.load(text)
        except yaml.YAMLError as problem:
            raise SettingsError(f"settings file {path}: {' '.join(str(problem).split())}") from None
    raise SettingsError(f"settings file {path}: expected a name that ends in .toml, .yaml or .json")


def _read(setting: Setting, value: Any, source: str) -> Any:
    """Return a value of any source in the type of its setting."""
    try:
        if isinstance(value, str):
            if setting.is_duration:
                return parse_duration(value)
            if setting.is_switch:
                return parse_bool(value)
            if setting.is_list:
                value = [part.strip() for part in value.split(",") if part.strip()]
        kind = setting.type | None if setting.default is None else setting.type
        return msgspec.convert(value, kind, strict=not isinstance(value, str))
    except (msgspec.ValidationError, ValueError) as problem:
        reason = re.sub(r" - at `[^`]*`", "", str(problem))
        if setting.choices:
            reason = f"expected {' or '.join(setting.choices)}"
        raise SettingsError(f"{source}={value!r}: {reason}") from None
