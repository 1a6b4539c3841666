"""Random fields with values that fit them and values that do not, for tests of every constraint both ways.

A `Drawn` knows its annotation, some good JSON values and some bad ones; containers and models are made of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from hypothesis import strategies as st

from steersman import Model
from steersman.models import Duration, IntOrString, Quantity
from steersman.models.markers import (
    CEL,
    AtLeastOneOf,
    AtMostOneOf,
    ExactlyOneOf,
    Format,
    Ge,
    Gt,
    Immutable,
    Le,
    ListMap,
    Lt,
    MaxItems,
    MaxLength,
    MaxProperties,
    MinItems,
    MinLength,
    MinProperties,
    MultipleOf,
    Nullable,
    Pattern,
    Set,
)


@dataclass(frozen=True)
class Drawn:
    hint: Any
    good: tuple[Any, ...]
    bad: tuple[Any, ...]
    immutable: bool = False
    costly: bool = False
    """It has a rule, which is too expensive in lists without bounds."""


class Shade(StrEnum):
    DARK = "Dark"
    LIGHT = "Light"


FIXED = (
    Drawn(bool, (True, False), ("true", 1)),
    Drawn(Annotated[int, Format("int32")], (2**31 - 1, -(2**31)), (2**31, 1.5)),
    Drawn(int, (2**53, -1), ("1", True)),
    Drawn(Annotated[float, Format("double")], (1.5, 2, -0.25), ("1.5",)),
    Drawn(Quantity, (1, "1.5Gi", "100m", "1e3", "-2"), ("1.5gi", "x", "")),
    Drawn(Duration, ("5s", "1h30m", "0", "-2ms", "1.5h"), ("5", "1 day", "s")),
    Drawn(IntOrString, (1, "10%"), (1.5, True, [1])),
    Drawn(datetime, ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+01:00"), ("yesterday", "2026-13-01T00:00:00Z")),
    Drawn(date, ("2026-02-28",), ("2026-02-30", "today")),
    Drawn(UUID, ("9b2f1c5e-0b1a-4c8e-9b53-2f3a6f2d1c11",), ("1234",)),
    Drawn(bytes, ("AAAA", "AA=="), ("?", "", "AA")),
    Drawn(Shade, ("Dark", "Light"), ("dark", "")),
    Drawn(Annotated[str, Format("ipv4")], ("1.2.3.4",), ("1.2.3", "::1")),
    Drawn(Annotated[str, Format("ipv6")], ("::1",), ("1.2.3.4", "x")),
    Drawn(Annotated[str, Format("cidr")], ("10.0.0.0/8",), ("10.0.0.0",)),
    Drawn(Annotated[str, Format("email")], ("a@example.com",), ("example.com",)),
    Drawn(Annotated[str, Pattern("^[a-z]+$")], ("abc",), ("", "a1", "A")),
    Drawn(Annotated[str, Pattern(r"^\d{2,3}(-x)?$")], ("12", "123-x"), ("1", "12-")),
    Drawn(Annotated[str, MinLength(1), Pattern("^[^ ]*$")], ("a", "é"), ("", "a b")),
    Drawn(Nullable[Annotated[str, MinLength(1)]], (None, "x"), ("", 1)),
    Drawn(Annotated[str, CEL("self.startsWith('x')", message="needs an x")], ("x", "xy"), ("y",), costly=True),
    Drawn(Annotated[str, Immutable, MaxLength(9)], ("once", "twice"), ("0123456789",), immutable=True, costly=True),
)


@st.composite
def numbers(draw: st.DrawFn) -> Drawn:
    low = draw(st.integers(-(10**6), 10**6))
    high = low + draw(st.integers(2, 10**6))
    lower, upper = draw(st.sampled_from([(Ge, 0), (Gt, 1)])), draw(st.sampled_from([(Le, 0), (Lt, 1)]))
    first, last = low + lower[1], high - upper[1]
    return Drawn(Annotated[int, lower[0](low), upper[0](high)], (first, last), (first - 1, last + 1, "1"))


@st.composite
def multiples(draw: st.DrawFn) -> Drawn:
    step = draw(st.integers(2, 1000))
    return Drawn(Annotated[int, MultipleOf(step)], (0, step, -3 * step), (step + 1, 1))


@st.composite
def texts(draw: st.DrawFn) -> Drawn:
    fewest = draw(st.integers(1, 4))
    most = fewest + draw(st.integers(0, 4))
    letter = draw(st.sampled_from("aé水𝄞"))
    good, bad = (letter * fewest, letter * most), (letter * (fewest - 1), letter * (most + 1))
    return Drawn(Annotated[str, MinLength(fewest), MaxLength(most)], good, bad)


@st.composite
def choices(draw: st.DrawFn) -> Drawn:
    words = draw(
        st.one_of(
            st.lists(st.sampled_from(["a", "b", "", "null", "1"]), min_size=1, max_size=4, unique=True),
            st.lists(st.integers(-3, 3), min_size=1, max_size=4, unique=True),
        )
    )
    return Drawn(Literal[tuple(words)], tuple(words), ("other", 99))


LEAVES = st.one_of(st.sampled_from(FIXED), numbers(), multiples(), texts(), choices())


def others(values: tuple[Any, ...]) -> list[Any]:
    """Values that differ for the API server, to which `True` is not 1."""
    found: list[Any] = []
    for value in values:
        if not any(value == seen and type(value) is type(seen) for seen in found):
            found.append(value)
    return found


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[Drawn]) -> Drawn:
    item = draw(inner.filter(lambda drawn: not drawn.immutable))
    fewest, more = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    most = fewest + more
    full = [item.good[index % len(item.good)] for index in range(most)]
    bad = [full[: fewest - 1], [*full, item.good[0]], "text", *([*full[:-1], wrong] for wrong in item.bad)]
    hint = Annotated[tuple[item.hint, ...], MinItems(fewest), MaxItems(most)]  # type: ignore[name-defined]
    return Drawn(hint, (full, full[:fewest]), tuple(bad), costly=item.costly)


@st.composite
def sets(draw: st.DrawFn) -> Drawn:
    item = draw(st.one_of(numbers(), texts(), choices()))
    good = others(item.good)
    bad = ([good[0], good[0]], *([wrong] for wrong in item.bad))
    return Drawn(Annotated[tuple[item.hint, ...], Set], ([], good), bad)  # type: ignore[name-defined]


@st.composite
def maps(draw: st.DrawFn, inner: st.SearchStrategy[Drawn]) -> Drawn:
    item = draw(inner.filter(lambda drawn: not drawn.immutable and not drawn.costly))
    most = draw(st.integers(1, 2))
    full = {f"k{index}": item.good[index % len(item.good)] for index in range(most)}
    bad = [{}, {**full, "more": item.good[0]}, [], *({"k": wrong} for wrong in item.bad)]
    hint = Annotated[Mapping[str, item.hint], MinProperties(1), MaxProperties(most)]  # type: ignore[name-defined]
    return Drawn(hint, (full,), tuple(bad))


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Drawn]) -> Drawn:
    parts = {f"p{index}": draw(inner) for index in range(draw(st.integers(1, 3)))}
    optional = [name for name in parts if draw(st.booleans())]
    body = {"__annotations__": {name: part.hint for name, part in parts.items()}, "__module__": __name__}
    for name in optional:
        hint = body["__annotations__"][name]  # type: ignore[index]
        body["__annotations__"][name] = hint | None  # type: ignore[index]
        body[name] = None
    full = {name: part.good[0] for name, part in parts.items()}
    bad: list[Any] = [{**full, "unknown": 1}, "text"]
    for name, part in parts.items():
        bad += [{**full, name: wrong} for wrong in part.bad]
        if name not in optional:
            bad.append({key: value for key, value in full.items() if key != name})
    good = [full, {name: parts[name].good[-1] for name in parts}, {n: v for n, v in full.items() if n not in optional}]
    stays = any(part.immutable for part in parts.values())
    model = type(Model)("Drawn", (Model,), body)
    return Drawn(model, tuple(good), tuple(bad), immutable=stays, costly=any(p.costly for p in parts.values()) or stays)


@st.composite
def keyed(draw: st.DrawFn) -> Drawn:
    part = draw(LEAVES.filter(lambda drawn: not drawn.costly))
    body = {"__annotations__": {"key": str, "value": part.hint}, "__module__": __name__}
    items = [{"key": f"k{index}", "value": value} for index, value in enumerate(part.good)]
    bad = [
        [items[0], {**items[0], "value": part.good[-1]}],
        [{"value": part.good[0]}],
        *([{"key": "k", "value": wrong}] for wrong in part.bad),
    ]
    hint = Annotated[tuple[type(Model)("Keyed", (Model,), body), ...], ListMap("key")]  # type: ignore[misc]
    return Drawn(hint, (items, []), tuple(bad))


@st.composite
def exclusive(draw: st.DrawFn) -> Drawn:
    rule, allowed = draw(st.sampled_from([(ExactlyOneOf, {1}), (AtMostOneOf, {0, 1}), (AtLeastOneOf, {1, 2})]))
    body: dict[str, Any] = {
        "__annotations__": {"one": str | None, "other": int | None, "free": bool | None},
        "one": None,
        "other": None,
        "free": None,
        "__module__": __name__,
        "__rules__": (rule("one", "other"),),
    }
    by_count = {0: {"free": True}, 1: {"other": 3}, 2: {"one": "", "other": 0}}
    good = tuple(value for count, value in by_count.items() if count in allowed)
    bad = tuple(value for count, value in by_count.items() if count not in allowed)
    return Drawn(type(Model)("Exclusive", (Model,), body), good, bad, costly=True)


@st.composite
def unions(draw: st.DrawFn) -> Drawn:
    part, other = draw(texts()), draw(numbers())
    left = type(Model)(
        "Left", (Model,), {"__annotations__": {"a": part.hint}, "__module__": __name__}, tag_field="type", tag="Left"
    )
    right = type(Model)(
        "Right", (Model,), {"__annotations__": {"b": other.hint}, "__module__": __name__}, tag_field="type", tag="Right"
    )
    good = ({"type": "Left", "a": part.good[0]}, {"type": "Right", "b": other.good[0]})
    bad = (
        {"type": "Middle", "a": part.good[0]},
        {"a": part.good[0]},
        {"type": "Left"},
        {"type": "Left", "a": part.good[0], "b": other.good[0]},
        {"type": "Right", "b": other.bad[0]},
    )
    return Drawn(left | right, good, bad, costly=True)


def fields(depth: int = 2) -> st.SearchStrategy[Drawn]:
    """A field of any kind, `depth` containers deep."""
    inner = LEAVES if depth == 0 else fields(depth - 1)
    return st.one_of(LEAVES, lists(inner), maps(inner), objects(inner), sets(), keyed(), exclusive(), unions())
