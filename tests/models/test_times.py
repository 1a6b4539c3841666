import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.models import Duration, MicroTime, Model, decode, encode
from steersman.models.times import format_duration, format_time, parse_duration, parse_time
from steersman.models.wire import DecodeError


class Lease(Model):
    renewed: MicroTime | None = None
    every: Duration | None = None


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2026-01-02T03:04:05Z", 0),
        ("2026-01-02T03:04:05.1Z", 100_000),
        ("2026-01-02T04:04:05.123456789+01:00", 123_456),
        ("2026-01-02t03:04:05z", 0),
    ],
)
def test_rfc_3339_is_read_in_utc_with_microseconds(text: str, micros: int):
    assert parse_time(text) == datetime(2026, 1, 2, 3, 4, 5, micros, UTC)
    assert parse_time(text).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text", ["", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z", "0001-01-01T00:00:00+23:59"]
)
def test_what_is_no_time_is_refused(text: str):
    with pytest.raises(ValueError, match="not a"):
        parse_time(text)


def test_times_are_written_in_utc_with_whole_seconds():
    when = datetime(2026, 1, 2, 4, 4, 5, 999, timezone(timedelta(hours=1)))

    assert format_time(when) == "2026-01-02T03:04:05Z"


def test_a_naive_time_is_refused_rather_than_guessed():
    with pytest.raises(ValueError, match="no time zone"):
        MicroTime.of(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(("micros", "written"), [(0, "000000"), (120, "000120"), (123456, "123456")])
def test_a_micro_time_always_has_six_decimals(micros: int, written: str):
    lease = Lease(renewed=MicroTime.of(datetime(2026, 1, 2, 3, 4, 5, micros, UTC)))

    assert encode(lease) == f'{{"renewed":"2026-01-02T03:04:05.{written}Z"}}'.encode()
    assert decode(Lease, encode(lease)) == lease


def test_a_micro_time_is_a_datetime():
    renewed = decode(Lease, b'{"renewed":"2026-01-02T03:04:05.5Z"}').renewed

    assert renewed is not None
    assert renewed - datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) == timedelta(seconds=0.5)


GO_DURATIONS = [
    ("0", 0, "0s"),
    ("5s", 5_000_000, "5s"),
    ("1478s", 1_478_000_000, "24m38s"),
    ("-5s", -5_000_000, "-5s"),
    ("+5s", 5_000_000, "5s"),
    ("5.s", 5_000_000, "5s"),
    (".5s", 500_000, "500ms"),
    ("1.5h", 5_400_000_000, "1h30m0s"),
    ("3h30m", 12_600_000_000, "3h30m0s"),
    ("10.5s4m", 250_500_000, "4m10.5s"),
    ("-2m3.4s", -123_400_000, "-2m3.4s"),
    ("1500us", 1500, "1.5ms"),
    ("2µs", 2, "2µs"),
    ("39h9m14.425s", 140_954_425_000, "39h9m14.425s"),
    ("1999ns", 1, "1µs"),
]


@pytest.mark.parametrize(("text", "micros", "written"), GO_DURATIONS)
def test_durations_read_and_write_as_in_go(text: str, micros: int, written: str):
    assert parse_duration(text) == timedelta(microseconds=micros)
    assert format_duration(timedelta(microseconds=micros)) == written


@pytest.mark.parametrize("text", ["", "3", "-", "s", ".", ".s", "1d", "1h ", "h1", "300000000h", "1e3s"])
def test_what_go_refuses_as_a_duration_is_refused(text: str):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.timedeltas(min_value=timedelta(days=-100_000), max_value=timedelta(days=100_000)))
def test_a_written_duration_reads_back(value: timedelta):
    assert parse_duration(format_duration(value)) == value
    assert pickle.loads(pickle.dumps(Duration.of(value))) == value


def test_a_duration_on_the_wire():
    assert encode(Lease(every=Duration("90s"))) == b'{"every":"1m30s"}'
    assert decode(Lease, b'{"every":"1h"}').every == Duration(hours=1)
    with pytest.raises(DecodeError, match=r"\$\.every.*'soon' is not a duration"):
        decode(Lease, b'{"every":"soon"}')
