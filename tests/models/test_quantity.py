import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.models import Model, Quantity, decode, encode
from steersman.models.quantity import QuantityFormat
from steersman.models.wire import DecodeError

GO = [line.split("\t") for line in (Path(__file__).parent / "data" / "quantities.tsv").read_text().splitlines()]
"""A text, its form in apimachinery 0.36, and its form after arithmetic; both are empty if it is invalid."""


@pytest.mark.parametrize(("text", "written", "canonical"), GO)
def test_a_quantity_is_written_as_go_writes_it(text: str, written: str, canonical: str):
    if not written:
        with pytest.raises(ValueError, match="is not a quantity"):
            Quantity(text)
        return

    quantity = Quantity(text)

    assert str(quantity) == written
    assert str(quantity + Quantity(0) - Quantity(1) + Quantity(1)) == canonical


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000m", "1"),
        ("1024Ki", "1Mi"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1e3", "1e3"),
        ("12345e2", "1234500"),
        ("8Ei", "9223372036854775807"),
        ("10000E", "10000E"),
    ],
)
def test_the_canonical_form_has_no_fraction_and_the_largest_suffix(text: str, written: str):
    assert str(Quantity(text)) == written


@pytest.mark.parametrize("text", ["", "-", ".", "1 Gi", "Gi", "1K", "1ki", "0x10", "1e", "1e1.5", "٣", "1Gi\n", "NaN"])
def test_text_that_is_no_quantity_is_refused_with_an_example(text: str):
    with pytest.raises(ValueError, match="write, for example, '250m'"):
        Quantity(text)


def test_an_absurd_exponent_is_refused_instead_of_computed():
    with pytest.raises(ValueError, match="exponent is larger"):
        Quantity("1e999999999")
    assert str(Quantity("1e-999999999")) == "1e-9"


def test_a_float_is_refused_because_it_is_not_exact():
    with pytest.raises(TypeError, match="float"):
        Quantity(0.1)  # type: ignore[arg-type]


decimals = st.builds(Fraction, st.integers(-(10**15), 10**15), st.sampled_from([1, 10, 1000, 10**6, 10**9]))


@given(decimals, decimals)
def test_arithmetic_and_order_agree_with_fractions(a: Fraction, b: Fraction):
    x, y = Quantity(a), Quantity(b)

    assert (x + y).as_fraction() == a + b
    assert (x - y).as_fraction() == a - b
    assert (-x).as_fraction() == -a
    assert (x * 7).as_fraction() == a * 7
    assert (x < y, x <= y, x == y) == (a < b, a <= b, a == b)


@given(decimals, st.sampled_from(QuantityFormat))
def test_what_is_written_reads_back_equal(amount: Fraction, form: QuantityFormat):
    quantity = Quantity(amount).with_format(form)

    again = Quantity(str(quantity))

    assert again == quantity
    assert hash(again) == hash(quantity)
    # A binary amount that no binary suffix fits is written plainly, and read as a decimal one (in Go, too).
    assert str(again) == str(quantity) or form is QuantityFormat.BINARY_SI


def test_equal_amounts_are_equal_and_hash_alike_in_any_notation():
    assert len({Quantity("1Gi"), Quantity("1024Mi"), Quantity("1073741824"), Quantity(2**30)}) == 1
    assert Quantity("1.5") == Decimal("1.5") == Fraction(3, 2)
    assert hash(Quantity("2")) == hash(2)
    assert Quantity("1") != "1"


def test_numbers_come_out_rounded_away_from_zero():
    assert (int(Quantity("1.1")), Quantity("1.0001").milli(), float(Quantity("250m"))) == (2, 1001, 0.25)
    assert Quantity("100m").as_decimal() == Decimal("0.1")
    assert not Quantity("0Ki")


def test_the_sum_keeps_the_notation_of_its_first_operand_unless_that_is_zero():
    assert str(Quantity("1Gi") + Quantity("1Gi")) == "2Gi"
    assert str(Quantity("0") + Quantity("2Gi")) == "2Gi"
    assert str(sum((Quantity("512Mi"), Quantity("512Mi")), Quantity())) == "1Gi"


class Limits(Model):
    cpu: Quantity
    memory: Quantity | None = None


def test_quantities_on_the_wire_are_strings_and_may_arrive_as_numbers():
    limits = decode(Limits, b'{"cpu": 0.5, "memory": 1024}')

    assert limits == Limits(cpu=Quantity("500m"), memory=Quantity("1024"))
    assert encode(limits) == b'{"cpu":"500m","memory":"1024"}'


def test_a_wrong_quantity_names_its_field():
    with pytest.raises(DecodeError) as caught:
        decode(Limits, b'{"cpu": "lots"}')

    assert caught.value.path == "$.cpu"
    assert "'lots' is not a quantity" in caught.value.message


def test_quantities_are_immutable_and_pickle():
    quantity = Quantity("1.5Gi")

    with pytest.raises(AttributeError):
        quantity._nanos = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(quantity)) == quantity
