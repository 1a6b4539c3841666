"""New records stay plain for a while, and what is packed later reads as before."""

from hypothesis import given
from hypothesis import strategies as st

from steersman.cache import fresh as module
from steersman.cache.fresh import Fresh


def pack(record: bytes) -> bytes:
    return b"packed" if record.startswith(b"plain") else record


def test_only_what_is_still_current_is_packed():
    fresh, names = Fresh(pack), {}
    first, second = b"plain 1", b"plain 2 which is longer"
    for record in (first, second):
        names["a"] = record
        fresh.add(names, "a", record)
    assert fresh.settle(10) == len(second) - len(b"packed")
    assert names == {"a": b"packed"}
    assert not len(fresh)


def test_what_is_gone_stays_gone():
    fresh, names = Fresh(pack), {"a": b"plain"}
    fresh.add(names, "a", names["a"])
    del names["a"]
    assert fresh.settle(10) == 0
    assert names == {}


def test_beyond_the_limit_the_oldest_are_packed_at_once(monkeypatch):
    monkeypatch.setattr(module, "MOST", 100)
    fresh, names = Fresh(pack), {}
    saved = 0
    for i in range(20):
        record = names[f"n{i}"] = b"plain" + b"." * 20
        saved += fresh.add(names, f"n{i}", record)
    assert len(fresh) == 4
    assert [names[f"n{i}"] for i in range(16)] == [b"packed"] * 16
    assert saved == 16 * 19


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "drop", "settle"])), max_size=40))
def test_after_any_history_the_sizes_add_up(history):
    fresh, names, size, serial = Fresh(pack), {}, 0, 0
    for name, action in history:
        if action == "put":
            serial += 1
            record = b"plain %d" % serial
            size += len(record) - len(names.get(name, b""))
            names[name] = record
            size -= fresh.add(names, name, record)
        elif action == "drop":
            size -= len(names.pop(name, b""))
        else:
            size -= fresh.settle(2)
        assert size == sum(map(len, names.values()))
