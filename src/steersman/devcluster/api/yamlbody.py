"""YAML as bodies of requests: YAML 1.1 without dates, turned into what JSON could say.

Keys become text, repeated ones are told, and documents whose aliases would unfold without bounds are refused. It
never makes objects other than those of JSON.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, cast

import yaml
from yaml.scanner import ScannerError

from steersman.devcluster.errors import bad_request

__all__ = ["parse_yaml"]

_MOST: Final = 500_000
_DEEPEST: Final = 500


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """What looks like a time is text, as it is in JSON; keys that come twice are noted."""

    repeated: list[str]

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in cast("list[tuple[Any, Any]]", node.value):
            if isinstance(key, yaml.ScalarNode):
                name = str(key.value)
                if name in seen:
                    line = key.start_mark.line + 1
                    self.repeated.append(f"line {line}: key {json.dumps(name)} already set in map")
                seen.add(name)
        made: Any = self
        if isinstance(node, yaml.MappingNode):
            made.flatten_mapping(node)
        # Not by the constructor's own: to Python, the keys 1 and true are one.
        return {
            _key(made.construct_object(key, deep=True)): made.construct_object(value, deep=deep)
            for key, value in cast("list[tuple[Any, Any]]", node.value)
        }


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    """The value of a document, and texts about repeated keys. Raises `ValueError` with Go-like texts, and a 400."""
    repeated: list[str] = []
    loader: Any = _Loader(body)
    loader.repeated = repeated
    try:
        value: Any = loader.get_single_data()
    except (yaml.YAMLError, UnicodeError) as problem:
        raise ValueError(f"yaml: {_shown(problem)}") from None
    except (ValueError, TypeError, OverflowError) as problem:
        # Keys that cannot be hashed, numbers that are none: the constructor's own errors.
        raise ValueError(f"yaml: {problem}") from None
    except RecursionError:
        raise bad_request("exceeded max depth") from None
    finally:
        loader.dispose()
    return _Unfold().plain(value, 0), repeated


def _shown(problem: Exception) -> str:
    """As go-yaml says it: scanner errors count lines from one, parser errors from zero."""
    text = getattr(problem, "problem", None) or str(problem).partition("\n")[0]
    mark = getattr(problem, "context_mark", None)
    if mark is None or not mark.line:
        mark = getattr(problem, "problem_mark", None)
    line = mark.line if mark is not None else 0
    if line and isinstance(problem, ScannerError):
        line += 1
    return f"line {line}: {text}" if line else str(text)


class _Unfold:
    """A copy that JSON can say, bounded in size and depth."""

    def __init__(self) -> None:
        self.count = 0

    def plain(self, value: Any, depth: int) -> Any:
        self.count += 1
        if self.count > _MOST:
            raise ValueError("yaml: document contains excessive aliasing")
        if depth > _DEEPEST:
            raise bad_request("exceeded max depth")
        if isinstance(value, dict):
            found = cast("dict[Any, Any]", value)
            return {_key(key): self.plain(item, depth + 1) for key, item in found.items()}
        if isinstance(value, list | tuple | set):
            return [self.plain(item, depth + 1) for item in cast("list[Any]", value)]
        if isinstance(value, bytes):
            return value.decode("latin-1")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"json: unsupported value: {value}")
        if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
            return float(value)
        return value


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise ValueError(f"unsupported map key of type {type(key).__name__}")
