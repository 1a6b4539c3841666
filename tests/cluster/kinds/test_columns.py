"""Cells: ages as kubectl shows them."""

import pytest

from steersman_cluster.kinds import columns


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"), (-1.5, "0s"), (0.4, "0s"), (119.9, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"),
        (600, "10m"), (10799, "179m"), (10800, "3h"), (10860, "3h1m"), (28799, "7h59m"), (28800, "8h"),
        (172799, "47h"), (172800, "2d"), (183600, "2d3h"), (691199, "7d23h"), (691200, "8d"), (63071999, "729d"),
        (63072000, "2y"), (66528000, "2y40d"), (252288000, "8y"),
    ],
)  # fmt: skip
def test_an_age_has_two_or_three_figures(seconds: float, shown: str):
    assert columns.duration(seconds) == shown


def test_an_unknown_time_has_no_age():
    assert columns.since(None, 0) == "<unknown>"
    assert columns.since("nonsense", 0) == "<unknown>"


def test_a_microtime_is_a_time():
    assert columns.since("1970-01-01T00:00:10.500000Z", 70.5) == "60s"


def test_a_selector_is_shown_as_kubectl_takes_it():
    selector = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["z", "y"]},
            {"key": "d", "operator": "Exists"},
            {"key": "e", "operator": "DoesNotExist"},
        ],
    }
    assert columns.label_selector(selector) == "a=1,b=2,c in (y,z),d,!e"
    assert columns.label_selector({}) == "<none>"
    assert columns.label_selector(None) == "<none>"
