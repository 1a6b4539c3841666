"""YAML as bodies of requests, within the bounds that keep a request from holding the server's loop."""

from __future__ import annotations

from typing import Any, Final

import yaml
from yaml.scanner import ScannerError

from steersman import documents
from steersman_cluster.errors import bad_request
from steersman_cluster.schema.literals import from_yaml

__all__ = ["parse_yaml"]

_LIMITS: Final = documents.Limits(bytes=3 << 20, values=200_000)
"""Half a second of CPU at most. The largest definitions in use have a quarter of that; JSON has no such limit."""


def parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Return the value of a document, and a sentence for each repeated key.

    Raises:
        ValueError: The text is not YAML, with a message like that of the API server.
        APIError: 400 for a document that is nested too deeply.
    """
    try:
        found = list(documents.load_all(body, limits=_LIMITS, most=1))
    except documents.DocumentError as problem:
        if problem.text.startswith("exceeded max depth"):
            raise bad_request("exceeded max depth") from None
        raise ValueError(f"yaml: {problem.text}") from None
    except (yaml.YAMLError, UnicodeError) as problem:
        raise ValueError(f"yaml: {_shown(problem)}") from None
    return (from_yaml(found[0].value), found[0].duplicates) if found else (None, [])


def _shown(problem: Exception) -> str:
    """Return the text of a syntax error as go-yaml writes it: its scanner counts lines from 1, its parser from 0."""
    text = getattr(problem, "problem", None) or str(problem).partition("\n")[0]
    mark = getattr(problem, "context_mark", None)
    if mark is None or not mark.line:
        mark = getattr(problem, "problem_mark", None)
    line = mark.line if mark is not None else 0
    if line and isinstance(problem, ScannerError):
        line += 1
    return f"line {line}: {text}" if line else str(text)
