"""Checks the prose of the documentation against the rules in hack/prose/Steersman.

    python hack/prose.py [PAGE...]    # docs/ and README.md by default

The rules have the format of Vale, of which `existence` and `substitution` are understood here, so that a check needs
only Python; `vale` reads the same files. Code blocks, code spans, links and HTML comments are not prose.
Exit codes: 0 no finding, 1 findings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["PAGES", "Finding", "Rule", "findings", "prose", "rules"]

ROOT: Final = Path(__file__).resolve().parent.parent
RULES: Final = ROOT / "hack/prose/Steersman"
_QUOTES: Final = ROOT / "docs/conformance-suite.md"
"""The page that consists of names of Kubernetes' tests."""
PAGES: Final = (ROOT / "README.md", *(page for page in sorted(ROOT.glob("docs/**/*.md")) if page != _QUOTES))
_GENERATED: Final = "<!-- Generated"
_FENCE: Final = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_NOT_PROSE: Final = re.compile(
    r'<!--.*?-->|`[^`\n]*`|\]\([^)]*\)|https?://\S+|^\[[^\]]+\]: .*$|"[^"\n]*"', re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Rule:
    """A pattern that prose does not match, and what to write instead."""

    name: str
    pattern: re.Pattern[str]
    message: str


@dataclass(frozen=True)
class Finding:
    """A place in a page that breaks a rule."""

    page: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.rule}: {self.message}"


def rules(directory: Path = RULES) -> tuple[Rule, ...]:
    """Return the rules of a directory.

    Raises:
        ValueError: A file extends something else than `existence` and `substitution`.
    """
    return tuple(rule for file in sorted(directory.glob("*.yml")) for rule in _rules(file))


def _rules(file: Path) -> Iterator[Rule]:
    content: dict[str, Any] = yaml.safe_load(file.read_text())
    flags = re.IGNORECASE if content.get("ignorecase") else re.NOFLAG
    match content["extends"]:
        case "existence":
            for token in content["tokens"]:
                yield Rule(file.stem, re.compile(token, flags), content["message"])
        case "substitution":
            for token, better in content["swap"].items():
                message = content["message"].replace("%s", better, 1)
                yield Rule(file.stem, re.compile(token, flags), message)
        case other:
            raise ValueError(f"{file.name}: extends: {other}: only existence and substitution are understood")


def prose(text: str) -> str:
    """Return a page with spaces in place of everything that is not prose, so that lines keep their numbers."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    return _NOT_PROSE.sub(blank, _FENCE.sub(blank, text))


def findings(page: str, text: str, rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """Return what breaks the rules in a page; a generated page has none."""
    if text.startswith(_GENERATED):
        return ()
    shown = prose(text)
    found = [
        Finding(page, shown.count("\n", 0, match.start()) + 1, rule.name, rule.message.replace("%s", match[0]))
        for rule in rules
        for match in rule.pattern.finditer(shown)
    ]
    return tuple(sorted(found, key=lambda one: one.line))


def main() -> None:
    known = rules()
    pages = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    found = [f for page in pages for f in findings(str(page.relative_to(ROOT)), page.read_text(), known)]
    print(*found, sep="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
