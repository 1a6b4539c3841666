"""Errors of invalid JSON, with the texts of Go's encoding/json.

Only asked once parsing has failed: it scans the text again, byte by byte, with a stack of its own, so that no nesting
can exhaust ours. It makes no values.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["json_error"]

_END: Final = "unexpected end of JSON input"
_SPACE: Final = b" \t\r\n"
_MAX_DEPTH: Final = 10_000
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}


class _FaultError(Exception):
    pass


def json_error(data: bytes) -> str:
    """Return the error of invalid JSON; `""` for valid JSON."""
    try:
        _Scan(data).run()
    except _FaultError as error:
        return str(error)
    return ""


class _Scan:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def run(self) -> None:
        stack: list[int] = []
        state = "value"
        while True:
            self._skip()
            if not stack and state == "after":
                if self.at < len(self.data):
                    raise self._unexpected("after top-level value")
                return
            char = self._peek()
            if state == "after":
                state = self._after(stack, char)
            elif state == "key":
                if char != ord('"'):
                    raise self._unexpected("looking for beginning of object key string")
                self._string()
                self._skip()
                if self._peek() != ord(":"):
                    raise self._unexpected("after object key")
                self.at += 1
                state = "value"
            else:
                state = self._value(stack, char, state)

    def _after(self, stack: list[int], char: int) -> str:
        closing = stack[-1] + 2  # "]" follows "[" and "}" follows "{" by two
        if char == closing:
            self.at += 1
            stack.pop()
            return "after"
        if char == ord(","):
            self.at += 1
            return "key" if stack[-1] == ord("{") else "value"
        raise self._unexpected("after object key:value pair" if stack[-1] == ord("{") else "after array element")

    def _value(self, stack: list[int], char: int, state: str) -> str:
        if char in b"{[":
            if len(stack) >= _MAX_DEPTH:
                raise _FaultError("exceeded max depth")
            self.at += 1
            self._skip()
            if self._peek() == char + 2:
                self.at += 1
                return "after"
            stack.append(char)
            return "key" if char == ord("{") else "value"
        if char == ord('"'):
            self._string()
        elif char in _LITERALS:
            self._literal(_LITERALS[char])
        elif char in b"-0123456789":
            self._number()
        else:
            raise self._unexpected("looking for beginning of value")
        return "after"

    def _skip(self) -> None:
        data, at = self.data, self.at
        while at < len(data) and data[at] in _SPACE:
            at += 1
        self.at = at

    def _peek(self) -> int:
        if self.at >= len(self.data):
            raise _FaultError(_END)
        return self.data[self.at]

    def _within(self) -> int:
        """The byte at hand inside of a token; Go's scanner takes the end for a space there."""
        return self.data[self.at] if self.at < len(self.data) else ord(" ")

    def _string(self) -> None:
        self.at += 1
        while (char := self._peek()) != ord('"'):
            if char < 0x20:
                raise self._unexpected("in string literal")
            self.at += 1
            if char != ord("\\"):
                continue
            escape = self._within()
            if escape not in b'"\\/bfnrtu':
                raise self._unexpected("in string escape code")
            self.at += 1
            if escape == ord("u"):
                for _ in range(4):
                    if self._within() not in b"0123456789abcdefABCDEF":
                        raise self._unexpected("in \\u hexadecimal character escape")
                    self.at += 1
        self.at += 1

    def _literal(self, literal: bytes) -> None:
        for expected in literal:
            if self._within() != expected:
                raise self._unexpected(f"in literal {literal.decode()} (expecting {chr(expected)!r})")
            self.at += 1

    def _number(self) -> None:
        found = _NUMBER.match(self.data, self.at)
        if found is None:
            self.at += 1
            raise self._unexpected("in numeric literal")
        self.at = found.end()
        if self.at < len(self.data) and self.data[self.at] in b".eE":
            exponent = self.data[self.at] in b"eE"
            self.at += 1
            if exponent and self.at < len(self.data) and self.data[self.at] in b"+-":
                self.at += 1
            raise self._unexpected(
                "in exponent of numeric literal" if exponent else "after decimal point in numeric literal"
            )

    def _unexpected(self, where: str) -> _FaultError:
        char = chr(self._within())
        shown = {"'": "'\\''", '"': "'\"'"}.get(char) or f"'{_quoted(char)}'"
        return _FaultError(f"invalid character {shown} {where}")


def _quoted(char: str) -> str:
    if char == "\\":
        return "\\\\"
    named = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}.get(char)
    if named:
        return named
    return char if char.isprintable() else f"\\x{ord(char):02x}" if ord(char) < 0x80 else f"\\u{ord(char):04x}"
