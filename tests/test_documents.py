"""YAML is read within bounds: every text ends in a value or in an error that names the place."""

from __future__ import annotations

import itertools
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman import documents
from steersman.documents import DocumentError, Limits

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def chained(item: str) -> str:
    """A text in which each line repeats the one before it three times."""
    lines = [f"{now}: &{now} {item.format(before)}" for before, now in itertools.pairwise(LETTERS)]
    return "a: &a {x: 1}\n" + "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 30_000, "exceeded max depth"),
        ("[" * 1_500 + "]" * 1_500, "exceeded max depth"),
        ("{" * 3_000, "exceeded max depth"),
        ("- " * 100_000, "exceeded max depth"),
        ("? " * 100_000, "exceeded max depth"),
        (chained("{{<<: [*{0},*{0},*{0}]}}"), "document contains excessive aliasing"),
        (chained("[*{0},*{0},*{0}]"), "document contains excessive aliasing"),
        ("a: &a [*a]", "anchor 'a' value contains itself"),
        ("a: &a {<<: *a}", "anchor 'a' value contains itself"),
        ("a: *b", "unknown anchor 'b' referenced"),
        ("a: &a {<<: 1}", "map merge requires map or sequence of maps as the value"),
        ("a: \ud800", "lone surrogate"),
        ("? [a]\n: b", "unsupported map key of type list"),
        ("? {a: b}\n: b", "unsupported map key of type dict"),
        ("? ~\n: b", "unsupported map key of type NoneType"),
        ("!!python/object:os.system {}", "unknown tag"),
        ("!thing x", "unknown tag '!thing' of a scalar"),
        ("!!int x", "cannot decode 'x' as a !!int"),
        ("a: .inf", "unsupported value"),
        ("a: 1\n---\nb: 2", "expected 1 document, but found another one"),
        ("x" * 100_000_000, "the text is longer than"),
    ],
    ids=lambda value: value[:20] if len(value) < 50 else value[:8],
)
def test_a_text_beyond_the_bounds_is_refused(text: str, told: str) -> None:
    with pytest.raises(DocumentError) as problem:
        documents.load(text)
    assert told in problem.value.text


def test_deep_aliases_count_towards_the_depth() -> None:
    text = "a: &a " + "[" * 100 + "]" * 100 + "\nb: &b " + "[" * 100 + "*a" + "]" * 100 + "\nc: " + "[" * 100 + "*b"
    with pytest.raises(DocumentError, match="exceeded max depth"):
        documents.load(text + "]" * 100)


def test_values_are_counted_over_all_documents() -> None:
    with pytest.raises(DocumentError, match="more than 10 values"):
        list(documents.load_all("[1, 2]\n---\n" * 5, limits=Limits(values=10)))


def test_repeated_keys_are_reported_up_to_a_bound_and_the_last_one_counts() -> None:
    [document] = documents.load_all("".join(f"a: {n}\n" for n in range(1000)))
    assert document.value == {"a": 999}
    assert len(document.duplicates) == Limits().duplicates
    assert document.duplicates[0] == 'line 2: key "a" already set in map'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 012", 10),
        ("a: 0o12", 10),
        ("a: 0x1F", 31),
        ("a: -0b11", -3),
        ("a: 1_000", 1000),
        ("a: 12:30", "12:30"),
        ("a: 2001-01-01", "2001-01-01"),
        ("a: 1e3", 1000.0),
        ("a: .5", 0.5),
        ("a: 1.", 1.0),
        ("a: =", "="),
        ("a: yes", True),
        ("a: Off", False),
        ("a: y", "y"),
        ("a: ~", None),
        ("a:", None),
        ("a: 'yes'", "yes"),
        ("a: ! 12", "12"),
        ("a: !!str 12", "12"),
        ("a: !!int '12'", 12),
        ("a: !!float 1", 1.0),
        ("a: !!binary aGk=", "hi"),
        ("a: 99999999999999999999", 1e20),
        ("a: " + "9" * 5000, "9" * 5000),
        ("a: |\n  x\n  y\n", "x\ny\n"),
        ("a: <<", "<<"),
    ],
)
def test_scalars_are_what_kubernetes_takes_them_for(text: str, value: object) -> None:
    found = documents.load(text)["a"]
    assert (found, type(found)) == (value, type(value))


def test_keys_become_text() -> None:
    assert documents.load("{1: a, true: b, 1.5: c, x: d}") == {"1": "a", "true": "b", "1.5": "c", "x": "d"}


def test_merge_keys_give_way_to_own_keys_and_the_first_of_a_sequence_wins() -> None:
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {c: 3, <<: [*x, *y]}"
    assert documents.load(text)["z"] == {"a": 1, "b": 1, "c": 3}


def test_an_alias_is_a_copy() -> None:
    found = documents.load("a: &a {x: [1]}\nb: *a")
    found["a"]["x"].append(2)
    assert found["b"] == {"x": [1]}


def test_documents_know_their_lines() -> None:
    found = list(documents.load_all("# none\na: 1\n---\n\nb: 2\n---\n---\n- c\n"))
    assert [(document.value, document.line) for document in found] == [
        ({"a": 1}, 2),
        ({"b": 2}, 5),
        (None, 7),
        (["c"], 8),
    ]


def test_an_empty_text_has_no_value() -> None:
    assert documents.load("# nothing") is None
    assert list(documents.load_all(b"")) == []


def test_only_null_is_no_text_where_all_scalars_are_names() -> None:
    found = documents.load("a: no\nb: 1.10\nc: ~\nd: 012", scalars=documents.text_only)
    assert found == {"a": "no", "b": "1.10", "c": None, "d": "012"}


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(TREES)
def test_json_is_read_as_json(tree: object) -> None:
    assert documents.load(json.dumps(tree, ensure_ascii=False)) == tree


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="ab:-[]{}&*<>|!?#'\"\n ,~%@0.1", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = [document.value for document in documents.load_all(text)]
    except yaml.YAMLError:
        return
    json.dumps(found)


@pytest.mark.parametrize(
    "number", ["9" * 400, "-" + "9" * 400, "1e999", "-1e999", "1" + "0" * 400 + ".0", "0x" + "f" * 400]
)
def test_a_number_that_no_float_can_hold_is_text(number: str) -> None:
    assert documents.load(f"a: {number}") == {"a": number}
    assert documents.load(f"{number}: a") == {number: "a"}


@pytest.mark.parametrize("text", ["!!int " + "9" * 400, "!!float 1e999", "!!float " + "9" * 400])
def test_a_number_that_is_tagged_as_one_and_too_large_is_refused(text: str) -> None:
    with pytest.raises(documents.DocumentError, match="cannot decode"):
        documents.load(f"a: {text}")
