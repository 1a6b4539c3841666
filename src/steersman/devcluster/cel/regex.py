"""Go's regular expressions (RE2 syntax) as Python's: the `pattern` of a schema means what it means on the API server.

A pattern is rewritten once and cached; what Python cannot express is refused with `ValueError`, never guessed.
Matching is linear in RE2 and may not be here: this serves development, not hostile schemas.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache

__all__ = ["compile_pattern", "go_pattern"]

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_SIMPLE = {"z": r"\Z", "a": r"\x07"}


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A compiled expression to `search` with; raises ValueError where it is none."""
    try:
        return re.compile(go_pattern(pattern), re.ASCII)
    except re.error as error:
        raise ValueError(_go_error(pattern, error)) from error
    except (RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error


def _go_error(pattern: str, error: re.error) -> str:
    """What Go says of a bad expression, for the faults that people make."""
    if "missing )" in error.msg:
        return f"missing closing ): `{pattern}`"
    if "unbalanced parenthesis" in error.msg:
        return f"unexpected ): `{pattern}`"
    if "nothing to repeat" in error.msg:
        at = error.pos or 0
        return f"missing argument to repetition operator: `{str(error.pattern)[at : at + 1]}`"
    return error.msg


@lru_cache(maxsize=64)
def _category(name: str) -> str:
    """The members of a Unicode category as ranges of a character class."""
    ranges: list[str] = []
    start = -1
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code)).startswith(name)
        if inside and start < 0:
            start = code
        elif not inside and start >= 0:
            ranges.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = -1
    if not ranges:
        raise ValueError(f"invalid character class range: `\\p{{{name}}}`")
    return "".join(ranges)


def go_pattern(pattern: str) -> str:
    """Rewrite RE2 syntax into Python's; raises ValueError for what has no equal."""
    return _Rewriter(pattern).rewrite()


class _Rewriter:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.out: list[str] = []
        self.open: list[int] = [0]
        """For each open group, how many scoped flags must be closed with it."""

    def rewrite(self) -> str:
        while self.at < len(self.text):
            self._step(self.text[self.at])
        self.out.append(")" * self.open[-1])
        return "".join(self.out)

    def _step(self, char: str) -> None:
        match char:
            case "\\":
                self._escape(in_class=False)
            case "[":
                self._class()
            case "(":
                self._group()
            case ")":
                closing = self.open.pop() if len(self.open) > 1 else 0
                self._put(")" * (closing + 1), 1)
            case "$":
                self._put(r"\Z", 1)
            case "*" | "+" | "?" | "}":
                self._put(char, 1)
                if self.text[self.at : self.at + 1] == "+":
                    raise ValueError("invalid nested repetition operator")
            case _:
                self._put(char, 1)

    def _put(self, text: str, width: int) -> None:
        self.out.append(text)
        self.at += width

    def _group(self) -> None:
        rest = self.text[self.at :]
        if rest.startswith(("(?=", "(?!", "(?<=", "(?<!", "(?>", "(?(", "(?#", "(?P=", "(?P>")):
            raise ValueError("invalid or unsupported Perl syntax")
        if rest.startswith("(?<"):
            self.open.append(0)
            return self._put("(?P<", 3)
        flags = re.match(r"\(\?([a-zA-Z-]*)([):])", rest)
        if flags is None or rest.startswith("(?P<"):
            self.open.append(0)
            return self._put("(?P<" if rest.startswith("(?P<") else "(", 4 if rest.startswith("(?P<") else 1)
        wanted = flags[1].replace("U", "")
        wanted = wanted.removesuffix("-")
        if set(wanted) - set("ims-"):
            raise ValueError("invalid or unsupported Perl syntax")
        if flags[2] == ":":
            self.open.append(0)
        elif not wanted:
            return self._put("", flags.end())
        else:
            self.open[-1] += 1
        return self._put(f"(?{wanted}:", flags.end())

    def _class(self) -> None:
        start = self.at
        self._put("[", 1)
        if self.text[self.at : self.at + 1] == "^":
            self._put("^", 1)
        first = True
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "]" and not first:
                return self._put("]", 1)
            if char == "[":
                named = re.match(r"\[:(\^?)(\w+):\]", self.text[self.at :])
                if named and named[2] in _POSIX and not named[1]:
                    self._put(_POSIX[named[2]], named.end())
                else:
                    self._put(r"\[", 1)
            elif char == "\\":
                self._escape(in_class=True)
            elif char in "&~|" or (char == "]" and first):
                self._put(f"\\{char}", 1)
            else:
                self._put(char, 1)
            first = False
        raise ValueError(f"missing closing ]: `{self.text[start:]}`")

    def _escape(self, *, in_class: bool) -> None:
        rest = self.text[self.at + 1 :]
        if not rest:
            raise ValueError("trailing backslash at end of expression")
        if rest[0] in "pP":
            named = re.match(r"[pP](?:\{(\^?)(\w+)\}|(\w))", rest)
            if named is None:
                raise ValueError("invalid character class range")
            ranges = _category(named[2] or named[3])
            negated = (rest[0] == "P") != bool(named[1])
            if in_class and negated:
                raise ValueError("a negated Unicode class inside of a class is not supported")
            return self._put(ranges if in_class else f"[{'^' if negated else ''}{ranges}]", named.end() + 1)
        if rest.startswith("x{"):
            code, _, _ = rest[2:].partition("}")
            return self._put(f"\\U{int(code, 16):08x}", len(code) + 4)
        if rest[0] == "Q":
            quoted, _, _ = rest[1:].partition("\\E")
            return self._put(re.escape(quoted), len(quoted) + 4)
        if rest[0] in "123456789":
            raise ValueError("invalid escape sequence")
        return self._put(_SIMPLE.get(rest[0], f"\\{rest[0]}"), 2)
