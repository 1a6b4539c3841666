"""`Quantity`: exact amounts of resources, such as `250m` CPUs or `1536Mi` of memory.

A quantity is an integer of nano-units and its notation, without floating point. Parsing, rounding and canonical form
are those of `k8s.io/apimachinery/pkg/api/resource`, so that this library and the API server write the same text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Any, Final

__all__ = ["Quantity", "QuantityFormat"]

_NANO: Final = 10**9
_MAX_BINARY: Final = (2**63 - 1) * _NANO
_MAX_EXPONENT: Final = 400
_DECIMAL: Final[Mapping[str, int]] = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Final[Mapping[str, int]] = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()} | {0: ""}
_TEXT: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?", re.ASCII)


class QuantityFormat(Enum):
    """The three notations; a quantity keeps the one in which it was written."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
class Quantity:
    """An exact amount: `Quantity("1.5Gi")`, `Quantity(2)`, `Quantity("100m") * 3`.

    Equal amounts are equal and have the same hash in all notations, also compared to `int`, `Fraction` and `Decimal`.
    `str()` is the JSON form: `"1500m"` for 1.5, `"1536Mi"` for 1.5Gi. Amounts finer than a nano-unit are rounded away
    from zero; binary amounts are limited to 2**63 - 1. `int()` also rounds away from zero, like Go's `Value()` for
    amounts in its range. Beyond 999 exa the suffix stays `E` (Go drops it). Raises `ValueError` for text that is not a
    quantity.
    """

    __slots__ = ("_format", "_nanos", "_text")

    _nanos: int
    _format: QuantityFormat
    _text: str | None

    def __new__(cls, value: str | int | Decimal | Fraction | Quantity = 0) -> Quantity:
        """Parse a text such as `"500m"` or convert a number."""
        if isinstance(value, Quantity):
            return value
        if isinstance(value, str):
            return _parse(value)
        if isinstance(value, int | Decimal | Fraction) and not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            return cls._of(_round_up(Fraction(value) * _NANO), QuantityFormat.DECIMAL_SI)
        raise TypeError(f"a quantity is written as str, int, Decimal or Fraction, not {type(value).__name__}")

    @classmethod
    def _of(cls, nanos: int, form: QuantityFormat, text: str | None = None) -> Quantity:
        self = object.__new__(cls)
        object.__setattr__(self, "_nanos", nanos)
        object.__setattr__(self, "_format", form)
        object.__setattr__(self, "_text", text)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("quantities are immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._nanos, self._format, self._text)

    @property
    def format(self) -> QuantityFormat:
        """The notation."""
        return self._format

    def with_format(self, form: QuantityFormat) -> Quantity:
        """Return the same amount in another notation."""
        return self._of(self._nanos, form)

    def __str__(self) -> str:
        if self._text is None:
            object.__setattr__(self, "_text", _canonical(self._nanos, self._format))
        assert self._text is not None
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __int__(self) -> int:
        return _round_up(Fraction(self._nanos, _NANO))

    def __float__(self) -> float:
        return self._nanos / _NANO

    def __bool__(self) -> bool:
        return self._nanos != 0

    def as_fraction(self) -> Fraction:
        """Return the exact amount."""
        return Fraction(self._nanos, _NANO)

    def as_decimal(self) -> Decimal:
        """Return the exact amount, not rounded to the context's precision."""
        sign, digits = int(self._nanos < 0), tuple(int(d) for d in str(abs(self._nanos)))
        return Decimal((sign, digits, -9))

    def milli(self) -> int:
        """Return thousandths, rounded away from zero, like Go's `MilliValue()`."""
        return _round_up(Fraction(self._nanos, _NANO // 1000))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Quantity):
            return self._nanos == other._nanos
        if isinstance(other, int | Fraction | Decimal):
            return self.as_fraction() == other
        return NotImplemented

    def __lt__(self, other: Quantity | int | Fraction | Decimal) -> bool:
        if isinstance(other, Quantity):
            return self._nanos < other._nanos
        if isinstance(other, int | Fraction | Decimal):  # pyright: ignore[reportUnnecessaryIsInstance]
            return self.as_fraction() < Fraction(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(Fraction(self._nanos, _NANO))

    def __add__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return self._of(self._nanos + other._nanos, self._format if self._nanos else other._format)

    def __sub__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return self._of(self._nanos - other._nanos, self._format if self._nanos else other._format)

    def __mul__(self, factor: int) -> Quantity:
        if not isinstance(factor, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return self._of(self._nanos * factor, self._format)

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        return self._of(-self._nanos, self._format)

    def __abs__(self) -> Quantity:
        return self._of(abs(self._nanos), self._format)

    def __to_wire__(self) -> str:
        return str(self)

    @classmethod
    def __from_wire__(cls, value: object) -> Quantity:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"a quantity is a string or a number, not {value!r}")
        return _parse(value if isinstance(value, str) else repr(value))


def _rebuild(nanos: int, form: QuantityFormat, text: str | None) -> Quantity:
    return Quantity._of(nanos, form, text)  # pyright: ignore[reportPrivateUsage]


def _round_up(value: Fraction) -> int:
    """Round to the next integer away from zero."""
    whole = -(-abs(value.numerator) // value.denominator)
    return whole if value >= 0 else -whole


def _refusal(text: str, why: str) -> ValueError:
    return ValueError(f"{text!r} is not a quantity: {why} (write, for example, '250m', '1.5', '2Gi' or '1e3')")


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _TEXT.fullmatch(text)
    if match is None or not text:
        raise _refusal(text, "it must be a number with an optional suffix n, u, m, k, M … E, Ki … Ei or e3")
    sign, whole, part, suffix = match[1], match[2] or "", match[3] or "", match[4] or ""
    if not (whole or part):
        raise _refusal(text, "it has no digits")
    form, exponent = _notation(text, suffix)
    if form is QuantityFormat.BINARY_SI:
        amount = Fraction(int(whole + part or "0") << exponent, 10 ** len(part))
        nanos = min(_round_up(amount * _NANO), _MAX_BINARY)
        if 0 < nanos < _NANO:
            form = QuantityFormat.DECIMAL_SI
    else:
        nanos = _scaled(int(whole + part), exponent - len(part) + 9)
    kept = text if _is_kept(whole.lstrip("0"), part, exponent, form) else None
    if kept is None and nanos == 0:
        kept = "0"
    return Quantity._of(-nanos if sign == "-" else nanos, form, kept)  # pyright: ignore[reportPrivateUsage]


def _notation(text: str, suffix: str) -> tuple[QuantityFormat, int]:
    if suffix in _DECIMAL:
        return QuantityFormat.DECIMAL_SI, _DECIMAL[suffix]
    if suffix in _BINARY:
        return QuantityFormat.BINARY_SI, _BINARY[suffix]
    exponent = int(suffix[1:])
    if exponent > _MAX_EXPONENT:
        raise _refusal(text, f"the exponent is larger than {_MAX_EXPONENT}")
    return QuantityFormat.DECIMAL_EXPONENT, max(exponent, -_MAX_EXPONENT)


def _scaled(digits: int, exponent: int) -> int:
    """Return `digits * 10**exponent`, rounded up to an integer."""
    return digits * 10**exponent if exponent >= 0 else -(-digits // 10**-exponent)


def _is_kept(whole: str, part: str, exponent: int, form: QuantityFormat) -> bool:
    """Return whether Go writes a parsed text unchanged, canonical or not (`1.500` and `+5` are kept, `1.5` is not)."""
    whole = whole or "0"
    if form is QuantityFormat.BINARY_SI:
        room = 14 - len(whole) - int(exponent * 3 / 10)
        return not part and room >= 0 and int(whole) & 7 != 0 and int(whole) << exponent < 1 << 63
    scale, digits = exponent - len(part), whole + part
    return len(digits) <= 18 and scale >= -9 and scale % 3 == 0 and digits[0] != "0" and digits[-3:] != "000"


def _canonical(nanos: int, form: QuantityFormat) -> str:
    """Return the text with full precision, no fraction and the largest suffix."""
    if nanos == 0:
        return "0"
    if form is QuantityFormat.BINARY_SI and abs(nanos) >= 1024 * _NANO and nanos % _NANO == 0:
        amount, exponent = nanos // _NANO, 0
        while amount % 1024 == 0 and exponent < 60:
            amount, exponent = amount // 1024, exponent + 10
        return f"{amount}{_BINARY_SUFFIX[exponent]}"
    amount, exponent = nanos, -9
    while amount % 1000 == 0 and (exponent < 18 or form is QuantityFormat.DECIMAL_EXPONENT):
        amount, exponent = amount // 1000, exponent + 3
    if form is QuantityFormat.DECIMAL_EXPONENT:
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_DECIMAL_SUFFIX[exponent]}"
