"""Documents with template values for Helm charts: rendered either with defaults or as a template.

The kustomize tree, install.yaml and the OLM bundle use the defaults, the chart uses the expressions, so both always
have the same documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from steersman.manifests.yaml import to_yaml

__all__ = ["HOME", "Block", "Each", "More", "Text", "Tree", "When", "resolved", "templated"]

Tree = Any
"""Plain data with template values."""

HOME: Final = "steersman-home-namespace"
"""Placeholder for the namespace of the release in a chart; it is a valid DNS label, so all checks accept it."""


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar: `default`, or the value of `expression` (such as `.Values.replicas`)."""

    expression: str
    default: Any


@dataclass(frozen=True, slots=True)
class Block:
    """A mapping or list of the chart's values as the value of a key; the key is omitted if it is empty."""

    path: str
    default: Any


@dataclass(frozen=True, slots=True)
class More:
    """Additional items at the end of a list, from a list in the chart's values; none by default."""

    path: str


@dataclass(frozen=True, slots=True)
class When:
    """The value of a key, or items of a list, under a `condition`; `holds` is its default."""

    condition: str
    holds: bool
    value: Any


@dataclass(frozen=True, slots=True)
class Each:
    """Items of a list, one for every element of a list in the values; `{}` in `pattern` is the element."""

    path: str
    pattern: str
    default: Sequence[str] = ()


def resolved(tree: Tree) -> Any:
    """Return the tree with default values."""
    match tree:
        case Text() | Block():
            return tree.default
        case When():
            return resolved(tree.value)
        case dict():
            found = cast("dict[str, Any]", tree)
            return {key: resolved(value) for key, value in found.items() if not _left_out(value)}
        case list() | tuple():
            return list(_items(cast("Sequence[Any]", tree)))
        case _:
            return tree


def _left_out(value: Any) -> bool:
    return (isinstance(value, When) and not value.holds) or (isinstance(value, Block) and not value.default)


def _items(items: Sequence[Any]) -> Iterable[Any]:
    for item in items:
        match item:
            case When(holds=False):
                continue
            case When():
                value: Any = item.value
                yield from _items(cast("list[Any]", value if isinstance(value, list) else [value]))
            case Each():
                yield from (item.pattern.replace("{}", one) for one in item.default)
            case More():
                continue
            case _:
                yield resolved(item)


_TOKEN: Final = re.compile(r"__(\d+)__")


class _Tokens:
    """Placeholders for template text during the conversion of a document to YAML."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def new(self, text: str) -> str:
        """Add a text and return its placeholder."""
        self.known.append(text)
        return f"__{len(self.known) - 1}__"

    def text(self, match: re.Match[str]) -> str:
        """Return the text of a placeholder."""
        return self.known[int(match[1])]


def templated(documents: Tree | Sequence[Tree]) -> str:
    """Return one tree or several as the YAML text of a Helm template; braces in texts are escaped."""
    tokens = _Tokens()
    many = cast("Sequence[Any]", documents if isinstance(documents, list | tuple) else [documents])
    text = to_yaml([cast("Mapping[str, Any]", _marked(one, tokens)) for one in many])
    text = re.sub(r"\{\{.*?\}\}|\{\{|\}\}", lambda m: "{{ " + _quoted(m[0]) + " }}", text)
    lines = list(_unfolded(text.split("\n"), tokens))
    return "\n".join(lines).replace(HOME, "{{ $.Release.Namespace }}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _marked(tree: Tree, tokens: _Tokens) -> Any:
    match tree:
        case Text():
            return tokens.new("{{ " + tree.expression + " }}")
        case dict():
            return dict(_marked_keys(cast("dict[str, Any]", tree), tokens))
        case list() | tuple():
            return list(_marked_items(cast("Sequence[Any]", tree), tokens))
        case _:
            return tree


def _marked_keys(tree: Mapping[str, Any], tokens: _Tokens) -> Iterable[tuple[str, Any]]:
    for key, value in tree.items():
        match value:
            case When():
                yield key + tokens.new(f"if {value.condition}"), _marked(value.value, tokens)
            case Block():
                yield key + tokens.new(f"with {value.path}"), tokens.new("toYaml")
            case _:
                yield key, _marked(value, tokens)


def _marked_items(items: Sequence[Any], tokens: _Tokens) -> Iterable[Any]:
    for item in items:
        match item:
            case When():
                yield tokens.new("{{- if " + item.condition + " }}")
                value: Any = item.value
                yield from _marked_items(cast("list[Any]", value if isinstance(value, list) else [value]), tokens)
                yield tokens.new("{{- end }}")
            case Each():
                yield tokens.new("{{- range " + item.path + " }}")
                yield item.pattern.replace("{}", tokens.new("{{ . }}"))
                yield tokens.new("{{- end }}")
            case More():
                yield tokens.new("{{- with " + item.path + " }}")
                yield tokens.new("{{- toYaml . | nindent INDENT }}")
                yield tokens.new("{{- end }}")
            case _:
                yield _marked(item, tokens)


_KEY: Final = re.compile(r"^(?P<indent> *)(?P<dash>- )?(?P<key>[^\s:]+?)__(?P<token>\d+)__:(?P<rest>.*)$")
_CONTROL: Final = re.compile(r"^ *- __(\d+)__$")


def _unfolded(lines: Sequence[str], tokens: _Tokens) -> Iterable[str]:
    """Yield the lines with placeholders replaced, and conditional keys with their values in a condition."""
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if (key := _KEY.match(line)) is not None:
            end = _end_of(lines, position, len(key["indent"]))
            word, _, argument = tokens.known[int(key["token"])].partition(" ")
            yield f"{{{{- {word} {argument} }}}}"
            if word == "with":
                yield f"{key['indent']}{key['key']}:"
                yield f"{{{{- toYaml . | nindent {len(key['indent']) + 2} }}}}"
            else:
                yield f"{key['indent']}{key['key']}:{_TOKEN.sub(tokens.text, key['rest'])}"
                yield from _unfolded(lines[position:end], tokens)
            yield "{{- end }}"
            position = end
        elif (control := _CONTROL.match(line)) is not None and tokens.known[int(control[1])].startswith("{{-"):
            yield tokens.known[int(control[1])].replace("INDENT", str(len(line) - len(line.lstrip(" "))))
        else:
            yield _TOKEN.sub(tokens.text, line)


def _end_of(lines: Sequence[str], start: int, indent: int) -> int:
    end = start
    while end < len(lines):
        line = lines[end]
        depth = len(line) - len(line.lstrip(" "))
        if not line.strip() or depth < indent or (depth == indent and not line.lstrip().startswith("- ")):
            return end
        end += 1
    return end
