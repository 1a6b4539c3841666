import pytest

from steersman.models import IntOrString, Model, decode, encode, scaled_value


class Rollout(Model):
    max_surge: IntOrString | None = None


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [(3, 10, 3, 3), ("25%", 10, 3, 2), ("25%", 8, 2, 2), ("0%", 8, 0, 0), ("150%", 3, 5, 4), ("-25%", 10, -2, -3)],
)
def test_a_percentage_is_scaled_up_or_down(value: IntOrString, total: int, up: int, down: int):
    assert scaled_value(value, total, round_up=True) == up
    assert scaled_value(value, total, round_up=False) == down


@pytest.mark.parametrize("value", ["5", "five", "5 %", "5.5%", ""])
def test_a_string_that_is_no_percentage_is_refused(value: str):
    with pytest.raises(ValueError, match="neither a number nor a percentage"):
        scaled_value(value, 10, round_up=True)


def test_numbers_and_strings_keep_their_type_on_the_wire():
    assert encode(decode(Rollout, b'{"maxSurge":1}')) == b'{"maxSurge":1}'
    assert encode(decode(Rollout, b'{"maxSurge":"25%"}')) == b'{"maxSurge":"25%"}'
