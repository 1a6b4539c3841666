"""The settings of a process that runs an operator.

`model` declares each setting once: name, type, default, option, group and help. The command line, the loader, the error
messages and `docs/reference/settings.md` come from these declarations. A setting is given as an option, as an
environment variable, or as a key of a settings file.
"""

from steersman.operator.settings.declaration import Setting, SettingsError
from steersman.operator.settings.loader import load_settings
from steersman.operator.settings.model import SETTINGS, Settings
from steersman.operator.settings.values import Address, parse_address, parse_duration

__all__ = [
    "SETTINGS",
    "Address",
    "Setting",
    "Settings",
    "SettingsError",
    "load_settings",
    "parse_address",
    "parse_duration",
]
