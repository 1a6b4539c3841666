"""New records stay uncompressed for some seconds, and read the same after compression."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from steersman.cache.uncompressed import UncompressedBytes, UncompressedRecords
from steersman.models import Key

A = Key("ns", "a")


def pack(record: bytes) -> bytes:
    return b"packed" if record.startswith(b"plain") else record


def test_only_what_is_still_current_is_packed():
    fresh, names = UncompressedRecords(pack), {}
    first, second = b"plain 1", b"plain 2 which is longer"
    for record in (first, second):
        names["a"] = record
        fresh.add(A, names, record)
    assert fresh.compress(10) == len(second) - len(b"packed")
    assert names == {"a": b"packed"}
    assert not len(fresh)


def test_what_is_gone_stays_gone():
    fresh, names = UncompressedRecords(pack), {"a": b"plain"}
    fresh.add(A, names, names["a"])
    del names["a"]
    assert fresh.compress(10) == 0
    assert names == {}


def test_beyond_the_limit_the_oldest_are_packed_at_once():
    """A few more at a time than they would have to be."""
    fresh, names = UncompressedRecords(pack, UncompressedBytes(limit=100, batch_records=64, batch_bytes=50)), {}
    saved = 0
    for i in range(20):
        record = names[f"n{i}"] = b"plain" + b"." * 20
        saved += fresh.add(Key("ns", f"n{i}"), names, record)
        assert fresh.bytes <= 100
    assert len(fresh) == 4
    assert [names[f"n{i}"] for i in range(16)] == [b"packed"] * 16
    assert saved == 16 * 19


def test_the_stores_of_a_cache_share_the_limit():
    """Whichever grows packs its own; what the others hold is settled in its time."""
    plain, names = UncompressedBytes(limit=100, batch_records=64, batch_bytes=50), {}
    quiet, busy = UncompressedRecords(pack, plain), UncompressedRecords(pack, plain)
    for name in ("a", "b"):
        names[name] = b"plain" + b"." * 35
        quiet.add(Key("ns", name), names, names[name])
    for i in range(10):
        record = names[f"n{i}"] = b"plain" + b"." * 20
        busy.add(Key("ns", f"n{i}"), names, record)
        assert plain.bytes == quiet.bytes + busy.bytes <= 100
    assert len(quiet) == 2
    del busy
    assert plain.bytes == quiet.bytes == 80
    quiet.clear()
    assert plain.bytes == 0


def test_of_an_object_only_the_latest_record_is_held():
    """A record that is not current any more costs no memory while its successor waits."""
    fresh, names = UncompressedRecords(pack), {}
    first, second = (b"plain %d" % i for i in range(2))
    unheld = sys.getrefcount(first)
    for record in (first, second):
        names["a"] = record
        fresh.add(A, names, record)
    record = None
    now = sys.getrefcount(first)
    assert now == unheld
    assert len(fresh) == 1
    fresh.forget(A)
    assert not len(fresh)


def test_what_has_changed_again_waits_anew():
    fresh, names = UncompressedRecords(pack), {}
    for name in "abc":
        names[name] = b"plain"
        fresh.add(Key("ns", name), names, names[name])
    turn = fresh.current_batch()
    names["a"] = b"plain again"
    fresh.add(A, names, names["a"])
    fresh.compress(10, batch=turn)
    assert names == {"a": b"plain again", "b": b"packed", "c": b"packed"}


def test_a_slice_ends_with_the_bytes_that_it_may_take():
    fresh, names = UncompressedRecords(pack), {}
    for name in "abcde":
        names[name] = b"plain" + b"." * 95
        fresh.add(Key("ns", name), names, names[name])
    fresh.compress(10, size=150)
    assert [names[name] for name in "ab"] == [b"packed"] * 2
    assert len(fresh) == 3


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "drop", "settle"])), max_size=40), st.booleans()
)
def test_after_any_history_the_sizes_add_up(history, forgets):
    fresh, names, size, serial = UncompressedRecords(pack), {}, 0, 0
    for name, action in history:
        if action == "put":
            serial += 1
            record = b"plain %d" % serial
            size += len(record) - len(names.get(name, b""))
            names[name] = record
            size -= fresh.add(Key("ns", name), names, record)
        elif action == "drop":
            size -= len(names.pop(name, b""))
            if forgets:
                fresh.forget(Key("ns", name))
        else:
            size -= fresh.compress(2)
        assert size == sum(map(len, names.values()))
