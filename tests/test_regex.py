"""Patterns are Go's: matched in linear time, and refused where Go refuses them."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.regex import compile_matcher, compile_pattern

EVIL = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(x+x+)+y", "^([a-z]+)*@", r"(.*)*\d"]


@pytest.mark.parametrize("pattern", EVIL)
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    # Python's engine needs 2^40 steps for forty characters.
    assert compile_pattern(pattern).search("a" * 40 + "x" * 40 + "!") is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("[z-a]", "invalid character class range: `z-a`"),
    ],
)
def test_a_pattern_that_go_refuses_is_refused_in_its_words(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", "b"),
        (r"\d+", "\u0661 12", "12"),
        ("é.", "aéx", "éx"),
        (r"\pL+", "1é2", "é"),
        ("(?i)straße", "STRASSE", None),
        ("a.c", "a\nc", None),
        ("(?s)a.c", "a\nc", "a\nc"),
        ("^b", "a\nb", None),
        ("a$", "a\n", None),
        (r"\Aa\z", "a", "a"),
    ],
)
def test_a_pattern_finds_what_go_finds(pattern: str, text: str, found: str | None) -> None:
    match = compile_pattern(pattern).search(text)
    assert (match.group() if match is not None else None) == found


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_pattern_compiles_or_is_a_value_error(pattern: str, text: str) -> None:
    with suppress(ValueError):
        compile_pattern(pattern).search(text)


@given(st.text(alphabet="aéž😀\n\ud800b", max_size=300))
def test_a_matcher_agrees_with_a_search(text: str) -> None:
    for pattern in ("^.{1,3}$", "a|é", "^$", "[^a]😀", r"^\pL"):
        try:
            expected = compile_pattern(pattern).search(text) is not None
        except UnicodeEncodeError:
            expected = False
        assert compile_matcher(pattern)(text) is expected
        assert compile_matcher(pattern)(text) is expected


def test_a_matcher_refuses_what_a_pattern_refuses() -> None:
    with pytest.raises(ValueError, match="invalid or unsupported Perl syntax"):
        compile_matcher("(?=a)")
    with pytest.raises(ValueError, match="invalid UTF-8"):
        compile_matcher("\ud800")
