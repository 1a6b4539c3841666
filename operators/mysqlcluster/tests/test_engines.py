"""The pure parts of the engines: configuration files, literals, and lists of transactions."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mysqlcluster.backup.binlog import HEADER, BinlogError, Event, previous_of
from mysqlcluster.engines import Layout, ServerOptions, engine_of
from mysqlcluster.engines.mysql import owned_gtids
from mysqlcluster.engines.sql import configuration_text, quoted
from mysqlcluster.gtid import GtidError, GtidSet

LAYOUT = Layout(Path("/opt/server"), Path("/data"))
FLAVORS = ("mariadb", "mysql")
UUIDS = st.uuids().map(str)
NUMBERS = st.integers(1, 1 << 40)


def settings_of(text: str) -> dict[str, str]:
    """Return the settings of a configuration file with one section."""
    section, *lines = text.splitlines()
    assert section.startswith("[")
    return dict(line.split(" = ", 1) for line in lines)


@pytest.mark.parametrize("flavor", FLAVORS)
@given(
    wanted=st.dictionaries(
        st.sampled_from(["max_connections", "sync_binlog", "read_only", "super_read_only"]), st.integers(0, 9).map(str)
    )
)
def test_no_setting_of_a_user_weakens_what_replication_rests_on(flavor: str, wanted: dict[str, str]):
    text = engine_of(flavor).configuration(LAYOUT, ServerOptions(server_id=3, name="m-2", settings=wanted))
    found = settings_of(text)
    assert found["sync_binlog"] == "1"
    assert found["server_id"] == "3"
    guard = "super_read_only" if flavor == "mysql" else "read_only"
    assert found[guard] == "ON"
    assert found.get("max_connections") == wanted.get("max_connections")


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_server_has_the_certificate_of_its_options(flavor: str):
    tls = Path("/tls")
    options = ServerOptions(
        server_id=1, name="m-0", tls_certificate=tls / "tls.crt", tls_key=tls / "tls.key", tls_authority=tls / "ca.crt"
    )
    found = settings_of(engine_of(flavor).configuration(LAYOUT, options))
    assert (found["ssl_cert"], found["ssl_key"], found["ssl_ca"]) == ("/tls/tls.crt", "/tls/tls.key", "/tls/ca.crt")


@given(before=st.text(), letter=st.sampled_from("\n\r\0"), after=st.text())
def test_a_value_with_a_line_break_makes_no_configuration(before: str, letter: str, after: str):
    with pytest.raises(ValueError, match="line break"):
        configuration_text("mysqld", {"init_connect": before + letter + after})


def read_literal(literal: str) -> str:
    """Return the text of an SQL literal, as a server without NO_BACKSLASH_ESCAPES parses it."""
    assert literal[0] == literal[-1] == "'"
    text, rest = "", iter(literal[1:-1])
    for letter in rest:
        if letter == "'":
            assert next(rest) == "'"
        text += next(rest) if letter == "\\" else letter
    return text


@given(text=st.text())
def test_a_literal_is_read_as_the_text_that_it_was_made_of(text: str):
    assert read_literal(quoted(text)) == text


@given(owned=st.dictionaries(UUIDS, st.dictionaries(NUMBERS, st.integers(1, 1 << 31), min_size=1), max_size=4))
def test_owned_transactions_are_read_without_their_threads(owned: dict[str, dict[int, int]]):
    text = ",\n".join(
        ":".join([uuid, *(f"{number}#{thread}" for number, thread in pairs.items())]) for uuid, pairs in owned.items()
    )
    assert owned_gtids(text) == GtidSet({uuid: [(each, each) for each in pairs] for uuid, pairs in owned.items()})


@given(text=st.text(max_size=40))
def test_a_text_that_is_no_list_of_transactions_is_refused(text: str):
    try:
        owned_gtids(text)
    except GtidError:
        return
    assert not text.replace(",", "").strip() or set(text) <= set("0123456789abcdefABCDEF-:#, \t\n")


SETS = st.dictionaries(UUIDS, st.lists(st.tuples(NUMBERS, st.integers(0, 99)), min_size=1, max_size=4), max_size=3)


def event_before_a_file(sets: dict[str, list[tuple[int, int]]]) -> Event:
    """Return the event of MySQL that lists the transactions before a binary log, with a checksum."""
    body = len(sets).to_bytes(8, "little")
    for origin, pairs in sets.items():
        body += uuid.UUID(origin).bytes + len(pairs).to_bytes(8, "little")
        for first, more in pairs:
            body += first.to_bytes(8, "little") + (first + more + 1).to_bytes(8, "little")
    return Event(35, 0, 1, bytes(HEADER.size) + body + b"\1\2\3\4")


@given(sets=SETS)
def test_the_transactions_before_a_file_are_read(sets: dict[str, list[tuple[int, int]]]):
    wanted = GtidSet({origin: [(first, first + more) for first, more in pairs] for origin, pairs in sets.items()})
    assert previous_of(event_before_a_file(sets)) == wanted


@given(sets=SETS.filter(bool), cut=st.integers(5, 40))
def test_a_list_that_is_cut_off_is_refused(sets: dict[str, list[tuple[int, int]]], cut: int):
    event = event_before_a_file(sets)
    with pytest.raises(BinlogError, match="too short"):
        previous_of(event._replace(data=event.data[: max(HEADER.size, len(event.data) - cut)]))
