"""YAML output that is byte-for-byte stable, and that YAML 1.1 and 1.2 parsers read in the same way.

Keys are sorted like in Kubernetes' tools. Strings that a parser could read as a number, a date or a boolean are quoted,
and multi-line strings are blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import yaml

__all__ = ["to_yaml"]

_RISKY: Final = re.compile(
    r"[-+.]?[0-9].*|\.(inf|nan)|[-+]\.inf|y|n|yes|no|on|off|true|false|null|~|=|<<", re.IGNORECASE | re.DOTALL
)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002 - of PyYAML
        super().increase_indent(flow, indentless)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if "\n" in value and not any(line != line.rstrip() for line in value.split("\n")):
        style = "|"
    elif _RISKY.fullmatch(value):
        style = "'"
    return cast(Any, dumper).represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(documents: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> str:
    """Return one document, or several with `---` between them, with a final newline."""
    many = [cast("Mapping[str, Any]", documents)] if isinstance(documents, Mapping) else list(documents)
    return "---\n".join(
        yaml.dump(dict(d), Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=110, default_flow_style=False)
        for d in many
    )
