"""The parsers of non-standard JSON, of properties, and of stored messages."""

import contextlib
import json
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq.remoting import DocumentError, FrameError, FrameParser, StoredMessage
from rocketmq.remoting.json_documents import MAX_DEPTH, MAX_NONSTANDARD_BYTES, quote_keys, read_document
from rocketmq.remoting.messages import read_messages
from rocketmq.remoting.properties import read_properties, write_properties
from rocketmq.remoting.records import read_cluster_info, read_consumer_stats
from tests.java_properties import load_properties

scalars = st.none() | st.booleans() | st.integers() | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def dumps(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@given(values)
def test_standard_json_keeps_its_meaning(value):
    assert json.loads(quote_keys(json.dumps(value))) == value
    assert json.loads(quote_keys(json.dumps(value, indent=1))) == value


@given(st.dictionaries(st.integers(), values, max_size=5))
def test_numbers_as_keys_become_their_text(table):
    written = "{" + ",".join(f"{key}:{dumps(value)}" for key, value in table.items()) + "}"
    assert read_document(written.encode(), "a table") == {str(key): value for key, value in table.items()}


@given(st.lists(st.tuples(st.dictionaries(st.text(), scalars, max_size=4), values), max_size=4))
def test_objects_as_keys_become_their_json_text(entries):
    written = "{" + ",".join(f"{dumps(key)}:{dumps(value)}" for key, value in entries) + "}"
    expected = {dumps(key): value for key, value in entries}
    assert read_document(written.encode(), "a table") == expected


@given(st.text(alphabet='{}[],:"\\ab01 \n') | st.text())
def test_any_text_is_an_object_or_a_document_error(text):
    with contextlib.suppress(DocumentError):
        assert isinstance(read_document(text.encode("utf-8", "replace"), "a text"), dict)


@given(st.binary(max_size=300))
def test_any_bytes_are_messages_or_a_document_error(data):
    with contextlib.suppress(DocumentError):
        read_messages(data)


@pytest.mark.parametrize("text", ["[" * 200_000, "{0:" * (MAX_DEPTH + 1), '{"a":' * 200_000])
def test_a_document_that_is_nested_too_deeply_is_refused(text):
    with pytest.raises(DocumentError, match="nested"):
        read_document(text.encode(), "a table")


def test_a_large_document_that_is_not_standard_is_refused():
    text = '{0:"' + "a" * MAX_NONSTANDARD_BYTES + '"}'
    with pytest.raises(DocumentError, match="a table has"):
        read_document(text.encode(), "a table")


def test_keys_within_keys_are_refused():
    with pytest.raises(DocumentError, match="as a key"):
        read_document(b"{{{1:2}:3}:4}", "a table")


def test_members_and_queues_are_read_from_keys_that_are_numbers_and_objects():
    info = read_cluster_info(
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{1:"h:2",0:"h:1"},"brokerName":"a","cluster":"c"}},'
        b'"clusterAddrTable":{"c":["a"]}}'
    )
    assert info.groups["a"].addresses == {0: "h:1", 1: "h:2"}
    stats = read_consumer_stats(
        b'{"offsetTable":{{"brokerName":"a","queueId":1,"topic":"t"}:{"brokerOffset":9,"consumerOffset":4}}}'
    )
    assert stats.lag == 5


@pytest.mark.parametrize(
    "body",
    [
        b'{"brokerAddrTable":[]}',
        b'{"brokerAddrTable":{"a":{"brokerName":1,"cluster":"c"}}}',
        b'{"brokerAddrTable":{"a":{"brokerName":"a","cluster":"c","brokerAddrs":{"x":"h:1"}}}}',
        b'{"clusterAddrTable":{"c":[1]}}',
    ],
)
def test_cluster_information_with_wrong_types_is_a_document_error(body):
    with pytest.raises(DocumentError):
        read_cluster_info(body)


@given(st.dictionaries(st.text(), st.text(), max_size=4))
def test_no_value_of_a_property_adds_a_line(settings):
    written = write_properties(settings)
    assert written.count(b"\n") == len(settings)
    assert written.isascii()
    assert b"\r" not in written


@given(st.dictionaries(st.text(), st.text(), max_size=4))
def test_a_server_reads_the_properties_that_were_written(settings):
    assert load_properties(write_properties(settings).decode()) == settings


def test_properties_are_read_up_to_the_first_sign():
    assert read_properties(b"a=b=c\nempty=\nno sign\n") == {"a": "b=c", "empty": ""}


def stored(topic, queue, offset, body, properties):
    """Return the bytes of a message with addresses of 4 bytes."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    parts = (
        struct.pack(">IIIIqqI", 0xDAA320A7, zlib.crc32(body) & 0x7FFFFFFF, queue, 0, offset, 0, 0),
        bytes(8 + 8 + 8 + 8 + 4 + 8),
        struct.pack(">I", len(body)) + body,
        struct.pack(">B", len(topic)) + topic.encode(),
        struct.pack(">H", len(text)) + text,
    )
    message = b"".join(parts)
    return struct.pack(">I", len(message) + 4) + message


names = st.text("abcKEYS_", min_size=1, max_size=8)
messages = st.builds(
    StoredMessage,
    names,
    st.integers(0, 1000),
    st.integers(0, 2**62),
    st.binary(max_size=64),
    st.dictionaries(names, names, max_size=3),
)


@given(st.lists(messages, max_size=4))
def test_messages_in_one_answer_are_read_in_order(sent):
    data = b"".join(stored(m.topic, m.queue, m.offset, m.body, m.properties) for m in sent)
    assert list(read_messages(data)) == sent


def test_a_message_with_a_changed_body_is_refused():
    data = stored("t", 0, 7, b"hello", {}).replace(b"hello", b"hallo")
    with pytest.raises(DocumentError, match="checksum of the message at offset 7"):
        read_messages(data)


@pytest.mark.parametrize("name", ["code", "opaque", "flag"])
@pytest.mark.parametrize("value", ["true", "false", "null", '"1"', "1.0", str(2**31)])
def test_a_header_with_no_integer_where_one_belongs_is_refused(name, value):
    numbers = {"code": "0", "opaque": "1", "flag": "1", name: value}
    header = ("{" + ",".join(f'"{key}":{number}' for key, number in numbers.items()) + "}").encode()
    frame = struct.pack(">II", 4 + len(header), len(header)) + header
    with pytest.raises(FrameError, match=name):
        FrameParser().feed(frame)


def test_fields_that_are_not_text_become_their_json_text():
    header = b'{"code":0,"opaque":1,"flag":1,"extFields":{"a":true,"b":2,"c":null}}'
    (command,) = FrameParser().feed(struct.pack(">II", 4 + len(header), len(header)) + header)
    assert command.fields == {"a": "true", "b": "2"}
