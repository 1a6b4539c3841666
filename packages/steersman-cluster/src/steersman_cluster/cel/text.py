"""Functions on strings: CEL's strings extension and Kubernetes' regular expressions."""

from __future__ import annotations

# The values of expressions have whatever types they have; tables of functions over them cannot say more.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from steersman_cluster.cel.functions import no_overload, pattern
from steersman_cluster.cel.gotext import go_quote
from steersman_cluster.cel.meter import grow
from steersman_cluster.cel.syntax import UInt
from steersman_cluster.cel.values import CelError, Duration, Timestamp, TypeValue, shown, type_name

__all__ = ["TEXT", "index_of", "last_index_of"]

_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_PRECISION_DIGITS = 6
_SPACE = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    chr(code) for code in range(0x2000, 0x200B)
)


def _texts(name: str, *values: Any) -> None:
    if not all(isinstance(value, str) for value in values):
        raise no_overload(name, *values)


def _char_at(text: Any, index: int) -> str:
    _texts("charAt", text)
    if index < 0 or index > len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def index_of(value: Any, wanted: Any, start: int = 0) -> int:
    """Return the index of a substring from `start` on, -1 if absent. Raises `CelError` for a bad start."""
    if start < 0 or start > len(value):
        raise CelError(f"index out of range: {start}")
    return value.find(wanted, start)


def last_index_of(value: Any, wanted: Any, start: int | None = None) -> int:
    """Return the index of a substring, searching backwards from `start`."""
    if start is None:
        return value.rfind(wanted)
    if start < 0 or start > len(value):
        raise CelError(f"index out of range: {start}")
    return value.rfind(wanted, 0, start + len(wanted))


def _replace(text: Any, old: Any, new: Any, count: int = -1) -> str:
    _texts("replace", text, old, new)
    most = text.count(old) if old else len(text) + 1
    grow(len(text) + (most if count < 0 else min(most, count)) * len(new))
    return text.replace(old, new, count if count >= 0 else -1)


def _split(text: Any, separator: Any, count: int = -1) -> list[str]:
    _texts("split", text, separator)
    if count == 0:
        return []
    if separator == "":
        parts = list(text)
        return parts if count < 0 or count >= len(parts) else [*parts[: count - 1], "".join(parts[count - 1 :])]
    return text.split(separator, count - 1 if count > 0 else -1)


def _substring(text: Any, start: int, end: int | None = None) -> str:
    _texts("substring", text)
    stop = len(text) if end is None else end
    if end is not None and start > stop:
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    for index in (start, stop):
        if not 0 <= index <= len(text):
            raise CelError(f"index out of range: {index}")
    return text[start:stop]


def _join(items: Any, separator: str = "") -> str:
    if not isinstance(items, list) or not all(isinstance(item, str) for item in cast("list[Any]", items)):
        raise CelError(f"join: invalid input: {shown(items)}")
    texts = cast("list[str]", items)
    grow(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _find(text: Any, expression: Any) -> str:
    _texts("find", text, expression)
    found = pattern(expression).search(text)
    return found.group() if found is not None else ""


def _find_all(text: Any, expression: Any, limit: int = -1) -> list[str]:
    _texts("findAll", text, expression)
    found = [match.group() for match in pattern(expression).finditer(text)]
    return found if limit < 0 else found[:limit]


def _format(template: Any, values: Any) -> str:
    """The `format` function: %s %d %f %e %b %x %X %o and %%."""
    parts: list[str] = []
    at = used = 0
    while at < len(template):
        char = template[at]
        at += 1
        if char != "%":
            parts.append(char)
            continue
        if at >= len(template):
            raise CelError("unexpected end of string")
        precision, verb, at = _verb(template, at)
        if verb == "%":
            parts.append("%")
            continue
        if used >= len(values):
            raise CelError(f"index {used} out of range")
        parts.append(_formatted(verb, precision, values[used]))
        used += 1
    return "".join(parts)


def _verb(template: str, at: int) -> tuple[int | None, str, int]:
    precision: int | None = None
    if template[at] == ".":
        start = at + 1
        at = start
        while at < len(template) and template[at].isdigit():
            at += 1
        if at - start > _PRECISION_DIGITS:
            raise CelError(f"error while parsing precision: value out of range: {template[start:at]}")
        precision = int(template[start:at] or 0)
        grow(precision)
        if at >= len(template):
            raise CelError("could not find end of precision specifier")
    return precision, template[at], at + 1


def _formatted(verb: str, precision: int | None, value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match verb:
        case "s":
            return _any_text(value)
        case "d" if isinstance(value, int) and not isinstance(value, bool):
            return str(int(value))
        case "f" if number:
            return f"{float(value):.{6 if precision is None else precision}f}"
        case "e" if number:
            return f"{float(value):.{6 if precision is None else precision}e}"
        case "b" if isinstance(value, int):
            return format(int(value), "b")
        case "o" if isinstance(value, int) and not isinstance(value, bool):
            return format(int(value), "o")
        case "x" | "X" if isinstance(value, int) and not isinstance(value, bool):
            return format(int(value), verb)
        case "x" | "X" if isinstance(value, str | bytes):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if verb == "X" else digits
        case "d" | "f" | "e" | "b" | "o" | "x" | "X":
            kinds = {"d": "integers", "b": "integers and bools", "o": "integers"}
            text = kinds.get(verb, "doubles" if verb in "fe" else "integers, byte buffers, and strings")
            raise CelError(f"error during formatting: only {text} can be formatted, was given {type_name(value)}")
        case _:
            raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


def _any_text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case str():
            grow(len(value))
            return value
        case list():
            grow(4 * len(cast("list[Any]", value)))
            return f"[{', '.join(_inner_text(item) for item in cast('list[Any]', value))}]"
        case dict():
            grow(4 * len(cast("dict[Any, Any]", value)))
            items = sorted((_inner_text(key), _inner_text(item)) for key, item in cast("dict[Any, Any]", value).items())
            return f"{{{', '.join(f'{key}: {item}' for key, item in items)}}}"
        case bool() | int() | float() | bytes() | Duration() | Timestamp() | TypeValue() | UInt():
            return shown(value)
        case _:
            raise CelError(
                f"error during formatting: string clause can only be used on strings, was given {type_name(value)}"
            )


def _inner_text(value: Any) -> str:
    return _any_text(value)


TEXT: Final[Mapping[str, Callable[..., Any]]] = {
    "charAt": _char_at,
    "lowerAscii": lambda text: text.translate(_LOWER),
    "upperAscii": lambda text: text.translate(_UPPER),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "trim": lambda text: text.strip(_SPACE),
    "join": _join,
    "format": _format,
    "strings.quote": go_quote,
    "find": _find,
    "findAll": _find_all,
}
