from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.models import LabelSelector, LabelSelectorRequirement, parse_fields, parse_labels
from steersman.models.labels import check_labels
from steersman.models.selectors import (
    EVERYTHING,
    NOTHING,
    Operator,
    Selector,
    SelectorError,
    from_label_selector,
    from_labels,
    from_requirements,
    requirement,
)

GO = [line.split("\t") for line in (Path(__file__).parent / "data" / "selectors.tsv").read_text().splitlines()]
"""Kind, text, and which of the sets below apimachinery 0.36 matches with it; ERR where it refuses."""
LABELS = [{}, {"a": "b"}, {"a": "", "x": "5"}, {"a": "c", "b": "b", "x": "-3"}, {"in": "in", "notin": "a", "x": "y"}]
FIELDS = [{}, {"a": "b"}, {"a": "", "x": "5"}, {"a": "c", "b": "b"}, {"a": "a,b", "b": "\\"}]


@pytest.mark.parametrize(("kind", "text", "expected"), GO)
def test_selectors_are_read_and_mean_the_same_as_in_go(kind: str, text: str, expected: str):
    parse, sets = (parse_labels, LABELS) if kind == "labels" else (parse_fields, FIELDS)

    if expected == "ERR":
        with pytest.raises(SelectorError, match="selector"):
            parse(text)
    else:
        selector = parse(text)
        assert "".join("01"[selector.matches(s)] for s in sets) == expected
        assert parse(str(selector)) == selector


keys = st.from_regex(r"\A([a-z]{1,5}\.[a-z]{1,5}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,5}[A-Za-z0-9])?\Z")
values = st.from_regex(r"\A([A-Za-z0-9]([A-Za-z0-9_.-]{0,5}[A-Za-z0-9])?)?\Z")
requirements = st.one_of(
    st.builds(requirement, keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=3)),
    st.builds(requirement, keys, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(requirement, keys, st.sampled_from(["Gt", "Lt"]), st.integers(0, 10**9).map(lambda n: [str(n)])),
)
selectors = st.lists(requirements, max_size=4).map(Selector)


@given(selectors)
def test_what_a_selector_renders_reads_back_as_itself(selector: Selector):
    assert parse_labels(str(selector)) == selector
    assert hash(parse_labels(str(selector))) == hash(selector)


@given(selectors, selectors, st.dictionaries(keys, values, max_size=4))
def test_a_conjunction_matches_what_both_match(a: Selector, b: Selector, labels: dict[str, str]):
    assert (a & b).matches(labels) == (a.matches(labels) and b.matches(labels))


def test_nothing_stays_nothing_when_it_is_sent():
    assert not NOTHING.matches({"nothing": ""})
    assert parse_labels(str(NOTHING)) == NOTHING
    assert str(NOTHING) != str(EVERYTHING) == ""


def test_a_label_selector_means_all_its_labels_and_expressions():
    selector = from_label_selector(
        LabelSelector(
            match_labels={"app": "web"},
            match_expressions=(
                LabelSelectorRequirement(key="tier", operator="NotIn", values=("test",)),
                LabelSelectorRequirement(key="paused", operator="DoesNotExist"),
            ),
        )
    )

    assert str(selector) == "app=web,!paused,tier!=test"
    assert selector.matches({"app": "web"})
    assert not selector.matches({"app": "web", "paused": ""})
    assert selector.exact("app") == "web"
    assert selector.exact("tier") is None


def test_no_label_selector_is_nothing_and_an_empty_one_everything():
    assert from_label_selector(None) is NOTHING
    assert from_label_selector(LabelSelector()).is_everything


def test_a_node_selector_term_compares_integers():
    term = from_requirements((LabelSelectorRequirement(key="cores", operator="Gt", values=("8",)),))

    assert term.matches({"cores": "16"})
    assert not term.matches({"cores": "8"})
    assert not term.matches({"cores": "many"})
    assert not term.matches({})
    assert from_requirements(()) is NOTHING


@pytest.mark.parametrize(
    ("key", "operator", "some", "message"),
    [
        ("a", "in", ["b"], "unknown operator 'in'"),
        ("a", "In", [], "needs at least one value"),
        ("a", "Exists", ["b"], "takes no values"),
        ("a", "Gt", ["b"], "exactly one integer"),
        ("a b", "Exists", [], "label key 'a b'"),
        ("a", "In", ["b c"], "label value 'b c' of 'a'"),
    ],
)
def test_a_wrong_requirement_says_what_is_wrong(key: str, operator: str, some: list[str], message: str):
    with pytest.raises(SelectorError, match=message):
        requirement(key, operator, some)


def test_label_selectors_know_no_comparison():
    with pytest.raises(SelectorError, match="not allowed in a label selector"):
        from_label_selector(
            LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Gt", values=("1",)),))
        )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"": "x"}, "1 to 63"),
        ({"a" * 64: "x"}, "1 to 63"),
        ({"/a": "x"}, "prefix before '/' is empty"),
        ({"Example.com/a": "x"}, "lower-case DNS name"),
        ({"a.b/c/d": "x"}, "lower-case DNS name"),
        ({f"{'a' * 254}/b": "x"}, "at most 253"),
        ({"a": "x" * 64}, "at most 63"),
        ({"a": "-x"}, "beginning and ending"),
        ({"a": "x\n"}, "beginning and ending"),
    ],
)
def test_labels_that_the_api_server_refuses_are_refused(labels: dict[str, str], message: str):
    with pytest.raises(ValueError, match=message):
        check_labels(labels)


def test_labels_at_their_limits_are_accepted():
    labels = {f"{'a' * 253}/{'b' * 63}": "c" * 63, "A_b.c-d": ""}

    assert check_labels(labels) is labels
    assert from_labels({"a": "b"}) == parse_labels("a=b")


@given(st.dictionaries(st.sampled_from(["metadata.name", "spec.nodeName", "status.phase"]), st.text(max_size=6)))
def test_field_values_are_escaped_and_read_back(fields: dict[str, str]):
    from steersman.models.selectors import FieldSelector, FieldTerm

    selector = FieldSelector(FieldTerm(k, True, v) for k, v in fields.items())

    assert parse_fields(str(selector)) == selector
    assert selector.matches(fields)
    assert selector.matches(lambda name: fields.get(name))
    assert all(selector.exact(k) == v for k, v in fields.items())


def test_operators_have_the_names_of_the_api():
    assert {*Operator} == {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
