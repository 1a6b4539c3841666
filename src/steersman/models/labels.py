"""The syntax of label keys and values that the API server accepts.

The limits are those of `IsQualifiedName` and `IsValidLabelValue` in apimachinery's validation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["check_label_key", "check_label_value", "check_labels"]

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_RULE: Final = "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"


def check_label_key(key: str) -> str:
    """Return `key`, or raise `ValueError`: an optional DNS prefix of 253 and a name of 63 characters at most."""
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        raise ValueError(f"label key {key!r}: the prefix before '/' is empty")
    if len(prefix) > 253 or (prefix and not _SUBDOMAIN.fullmatch(prefix)):
        raise ValueError(f"label key {key!r}: the prefix must be a lower-case DNS name of at most 253 characters")
    if not 0 < len(name) <= 63 or not _NAME.fullmatch(name):
        raise ValueError(f"label key {key!r}: the name must have 1 to 63 characters: {_NAME_RULE}")
    return key


def check_label_value(value: str, key: str = "") -> str:
    """Return `value`, or raise `ValueError`: it must be empty or have at most 63 characters, like a name."""
    if value and (len(value) > 63 or not _NAME.fullmatch(value)):
        of = f" of {key!r}" if key else ""
        raise ValueError(f"label value {value!r}{of}: must be empty or have at most 63 characters: {_NAME_RULE}")
    return value


def check_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return `labels`, or raise `ValueError` for the first key or value that the API server would refuse."""
    for key, value in labels.items():
        check_label_key(key)
        check_label_value(value, key)
    return labels
