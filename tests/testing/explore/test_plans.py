"""Plans are values with a text form."""

from __future__ import annotations

import pytest

from steersman.testing.explore import Fault, Plan, PlanError, read_plans


@pytest.mark.parametrize(
    "text", ["none", "crash-after:W3", "hold:E5..S2", "past:W3..W1", "crash-after:W1+conflict:W4", "absent:S1"]
)
def test_a_plan_is_read_from_its_text(text: str) -> None:
    assert str(Plan.read(text)) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("explode:W1", "explode"),
        ("crash-after:E1", "such as W3"),
        ("crash-after:W0", "W0"),
        ("hold:E1..W2", "S2"),
        ("past:W3", "past:W3..W1"),
        ("crash-after:W" + "9" * 50, "W99"),
        ("+".join(["crash-after:W1"] * 1000), "at most"),
    ],
)
def test_a_wrong_plan_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        Plan.read(text)


def test_a_file_has_one_plan_in_a_line_and_comments() -> None:
    assert read_plans(["# found on a busy day", "", "crash-after:W3  # the Secret"]) == [
        Plan((Fault("crash-after", "W3"),))
    ]
    with pytest.raises(PlanError, match="line 2"):
        read_plans(["none", "nonsense"])
