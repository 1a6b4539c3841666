"""Events, short and long: the object's managedFields are removed without parsing the rest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from steersman.cache.codecs import LARGE_OBJECT_BYTES
from steersman.cache.entry import UndecodableError
from steersman.cache.lines import LONG_LINE_BYTES, LineSplitter, MalformedStreamError
from steersman.cache.store import Store
from steersman.cache.wire import Spliced, parse_event, parse_item
from steersman.k8s import ConfigMap
from steersman.models import view_of

FIELDS = [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:data": {"f:x": {}}}}]
TAIL = "x" * (LONG_LINE_BYTES + 100)
CHUNKS = [LONG_LINE_BYTES // 4, LONG_LINE_BYTES + 50, 2 * LONG_LINE_BYTES]


def compact(obj):
    return json.dumps(obj, separators=(",", ":")).encode()


def taken(obj):
    """The stored part of an object is the same from a stream and from a list."""
    line = b'{"type":"ADDED","object":%s}' % obj
    meta, body, guessed = parse_item(obj, b"")
    whole = [line, line + b"\n", *(cut_at(line + b"\n", size, before) for size in CHUNKS for before in (0, 100))]
    for given_line in whole:
        for splice in (False, True):
            event, found, pieces, so = parse_event(given_line, splice=splice)
            assert (event, found_of(found), so) == ("ADDED", found_of(meta), guessed)
            assert (bytes(pieces), len(pieces)) == (body, len(body))
    return meta.name, json.loads(body), guessed


def cut_at(line, size, before):
    """A line as it comes in chunks of so many bytes, the first of which begins with a short one."""
    splitter, lines = LineSplitter(), []
    data = b"x" * before + b"\n" + line
    for at in range(0, len(data), size):
        lines += splitter.feed(data[at : at + size])
    assert bytes(lines[-1]) == line
    return lines[-1]


def found_of(meta):
    """What the cache keeps of it."""
    return replace(meta, managed_fields=UNSET)


def nested(depth):
    inner = st.dictionaries(st.sampled_from(["a", "metadata", "managedFields"]), st.just(1) | st.just(FIELDS))
    return inner if depth == 0 else st.dictionaries(st.sampled_from(["spec", "metadata", "b"]), nested(depth - 1))


@given(
    st.permutations(["apiVersion", "kind", "metadata", "spec", "data"]),
    st.permutations(["name", "labels", "ownerReferences"]),
    nested(2),
    st.lists(st.sampled_from(["}", "]", "{", "[", '"', "\\", ",", ":"]), max_size=24).map("".join),
)
def test_only_the_metadatas_managed_fields_are_cut_out(members, fields, spec, text):
    """C4: wherever else an object has members of that name, and with whatever value."""
    managed = [*FIELDS, {"manager": text, "fieldsV1": {f"k:{text}": {}}}]
    owners = [{"apiVersion": "v1", "kind": "Thing", "name": text, "uid": f"}}]{text}"}]
    for at in range(4):
        order = [*fields[:at], "managedFields", *fields[at:]]
        values = {
            "name": "n",
            "managedFields": managed,
            "labels": {"managedFields": "{", "x": text},
            "ownerReferences": owners,
        }
        metadata = {field: values[field] for field in order}
        for data in ("short", TAIL):
            whole = {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, "spec": spec, "data": data}
            obj = {member: whole[member] for member in members}
            expected = json.loads(json.dumps(obj))
            del expected["metadata"]["managedFields"]
            assert taken(compact(obj)) == ("n", expected, False)


@pytest.mark.parametrize(
    "size", [LONG_LINE_BYTES + 100, LARGE_OBJECT_BYTES - 100, LARGE_OBJECT_BYTES + 100, 3 * LARGE_OBJECT_BYTES]
)
@pytest.mark.parametrize("transform", [None, lambda body: body.replace(b'"drop":1,', b"")])
def test_a_long_object_of_a_list_is_kept_as_one_of_a_watch(size, transform):
    """Its pieces are joined once, for any number of readers."""
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "uid": "u", "managedFields": FIELDS}}
    line = b'{"type":"ADDED","object":%s}\n' % compact({**obj, "drop": 1, "data": {"x": "x" * size}})
    applied, staged = (Store(view_of(ConfigMap), transform=transform) for _ in range(2))
    for store in (applied, staged):
        store.declare("length", lambda found: str(len(found.data["x"])))
    applied.apply(*parse_event(line))
    staged.begin()
    event, meta, body, guessed = parse_event(line, splice=True)
    assert isinstance(body, Spliced)
    staged.stage(event, meta, body, guessed)
    assert [change.type for change in staged.commit()] == ["add"]
    for store in (applied, staged):
        (entry,) = store.by_index("length", str(size))
        assert entry.raw() == applied.get(("", "n")).raw()
        assert (b"drop" in entry.raw()) == (transform is None)
    assert staged.size == applied.size


def test_text_that_looks_like_managed_fields_is_left_alone():
    note = json.dumps({"metadata": {"managedFields": FIELDS}})
    for annotations in ({"last": note}, {"last": '"managedFields":' + compact(FIELDS).decode()}):
        metadata = {"name": "n", "annotations": annotations, "managedFields": FIELDS}
        obj = {"metadata": metadata, "data": {"x": TAIL}}
        expected = {"metadata": {"name": "n", "annotations": annotations}, "data": {"x": TAIL}}
        assert taken(compact(obj)) == ("n", expected, False)


def test_of_metadata_that_is_there_twice_the_last_one_counts():
    """As with every decoder; no API server writes it."""
    for data in ("", TAIL):
        obj = b'{"metadata":{"name":"a"},"metadata":{"name":"n","managedFields":%s},"d":"%s"}'
        name, body, _ = taken(obj % (compact(FIELDS), data.encode()))
        assert (name, body) == ("n", {"metadata": {"name": "n"}, "d": data})


@pytest.mark.parametrize(("right", "wrong"), [(b'"d":', b'"d"'), (b'x"}', b'x"]}')])
@pytest.mark.parametrize("data", ["x", TAIL])
def test_what_follows_the_metadata_is_looked_at_when_it_is_read(right, wrong, data):
    """W9: invalid JSON there hides neither the object nor later ones."""
    obj = compact({"metadata": {"name": "n", "uid": "u", "managedFields": FIELDS}, "d": data})
    store = Store(view_of(ConfigMap))
    store.apply(*parse_event(b'{"type":"ADDED","object":%s}\n' % obj.replace(right, wrong)))
    entry = store.get(("", "n"))
    with pytest.raises(UndecodableError):
        store.read(entry, ConfigMap)
    (change,) = store.apply(*parse_event(b'{"type":"DELETED","object":%s}\n' % obj))
    assert (change.type, store.get(("", "n"))) == ("delete", None)


@pytest.mark.parametrize("cut", [1, 2, 50, 150, LONG_LINE_BYTES])
@pytest.mark.parametrize("data", ["x", TAIL])
def test_a_line_that_breaks_off_is_malformed(cut, data):
    line = b'{"type":"ADDED","object":%s}' % compact({"metadata": {"name": "n", "managedFields": FIELDS}, "d": data})
    with pytest.raises(MalformedStreamError):
        parse_event(line[:-cut])
    with pytest.raises(MalformedStreamError):
        parse_event(line[: -cut - 1] + b"}")


@given(
    st.lists(
        st.sampled_from([0, 1, 5, LONG_LINE_BYTES - 1, LONG_LINE_BYTES, LONG_LINE_BYTES + 1, 3 * LONG_LINE_BYTES]),
        max_size=8,
    ),
    st.lists(
        st.sampled_from([1, 7, 100, LONG_LINE_BYTES - 1, LONG_LINE_BYTES, 2 * LONG_LINE_BYTES, 5 * LONG_LINE_BYTES]),
        min_size=1,
        max_size=8,
    ),
)
def test_long_and_short_lines_are_the_same_wherever_the_chunks_end(lengths, sizes):
    """W8: whichever way a chunk is cut, no byte is lost, and none comes twice."""
    lines = [bytes([97 + number]) * length + b"\n" for number, length in enumerate(lengths)]
    data, splitter, got, at, turn = b"".join(lines), LineSplitter(), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)] if turn < 500 else len(data)
        got += splitter.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    assert [bytes(line) for line in got] == [line for line in lines if line != b"\n"]
    assert [len(line) for line in got] == [len(line) for line in map(bytes, got)]
    assert splitter.feed(b"the next\n") == [b"the next\n"]


def test_what_has_come_in_pieces_is_kept_in_pieces():
    """Nothing of a long object is copied before its record is made."""
    obj = {"metadata": {"name": "n", "managedFields": FIELDS}, "d": TAIL * 4}
    line = b'{"type":"ADDED","object":%s}\n' % compact(obj)
    chunks = [
        line[: 2 * LONG_LINE_BYTES],
        line[2 * LONG_LINE_BYTES : 3 * LONG_LINE_BYTES],
        line[3 * LONG_LINE_BYTES :] + b"{}\n" + line[: 2 * LONG_LINE_BYTES],
        line[2 * LONG_LINE_BYTES :],
    ]
    splitter = LineSplitter()
    first, short, second = [found for chunk in chunks for found in splitter.feed(chunk)]
    assert short == b"{}\n"
    for long, pieces in ((first, chunks[:3]), (second, chunks[2:])):
        body = parse_event(long, splice=True)[2]
        assert {id(memoryview(piece).obj) for piece in body.pieces} == set(map(id, pieces))
        assert json.loads(bytes(body)) == {"metadata": {"name": "n"}, "d": TAIL * 4}


def test_a_long_line_that_never_ends_is_given_up():
    splitter = LineSplitter(limit=4 * LONG_LINE_BYTES)
    assert splitter.feed(b"{}\n" + b"x" * (3 * LONG_LINE_BYTES)) == [b"{}\n"]
    with pytest.raises(MalformedStreamError, match="longer than"):
        splitter.feed(b"x" * (2 * LONG_LINE_BYTES))
