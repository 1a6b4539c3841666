"""Documents with places that a user of a Helm chart may fill: one tree, read either with its defaults or as a template.

The kustomize tree, install.yaml and the OLM bundle take the defaults, the chart takes the expressions, so that the two
cannot drift apart. Pure; it knows nothing of what the documents mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from steersman.manifests.yaml import to_yaml

__all__ = ["HOME", "Block", "Each", "More", "Text", "Tree", "When", "resolved", "templated"]

Tree = Any
"""Plain data with the shapes below in it."""

HOME: Final = "steersman-home-namespace"
"""Stands for the namespace of the release in the documents of a chart; a DNS label, so that every check passes it."""


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar: `default`, or what `expression` (such as `.Values.replicas`) yields."""

    expression: str
    default: Any


@dataclass(frozen=True, slots=True)
class Block:
    """A mapping or list of the chart's values, written whole; as the value of a key that is left out when empty."""

    path: str
    default: Any


@dataclass(frozen=True, slots=True)
class More:
    """Items at the end of a list that are a list in the chart's values, none by default."""

    path: str


@dataclass(frozen=True, slots=True)
class When:
    """The value of a key, or items of a list, that are there only if `condition` holds; `holds` is its default."""

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
    """The tree with all defaults."""
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
    """Words that stand for template text while a document is made into YAML."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def new(self, text: str) -> str:
        self.known.append(text)
        return f"__{len(self.known) - 1}__"

    def text(self, match: re.Match[str]) -> str:
        return self.known[int(match[1])]


def templated(documents: Tree | Sequence[Tree]) -> str:
    """The YAML of one tree or several as the text of a Helm template; braces in their own texts are escaped."""
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
    """The lines with tokens replaced, and conditional keys wrapped together with what belongs to them."""
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
