"""A small client that sends and pulls messages, to test a broker; it has no load balancing and no retries."""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from rocketmq.remoting.admin import DEFAULT_TOPIC
from rocketmq.remoting.codes import RequestCode, ResponseCode
from rocketmq.remoting.connection import REQUEST_TIMEOUT_SECONDS, Connection
from rocketmq.remoting.errors import DocumentError
from rocketmq.remoting.records import integer, text

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
COMPRESSED_FLAG = 0x1
BORN_HOST_V6_FLAG = 0x10
STORE_HOST_V6_FLAG = 0x20
COMMIT_OFFSET_FLAG = 0x1
SUBSCRIPTION_FLAG = 0x4
NAME_SEPARATOR, PROPERTY_SEPARATOR = "\x01", "\x02"
PULLED_NOTHING = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED)


@dataclass(frozen=True)
class SentMessage:
    """The location at which a broker stored a message."""

    message_id: str
    queue: int
    offset: int


@dataclass(frozen=True)
class StoredMessage:
    """A message as a broker stores it."""

    topic: str
    queue: int
    offset: int
    body: bytes
    properties: Mapping[str, str]


@dataclass(frozen=True)
class PulledMessages:
    """Messages of one queue, and the offset to pull from next."""

    messages: tuple[StoredMessage, ...]
    next_offset: int
    min_offset: int
    max_offset: int


class MessageClient:
    """Sends messages to a broker and pulls them from it.

    Every command raises `RemotingError` when the server refuses it, does not answer in time, or closes the connection.

    Args:
        connection: an open connection to a broker.
        timeout_seconds: how long one command may take.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        self._connection = connection
        self._timeout = timeout_seconds

    async def send(
        self, topic: str, queue: int, body: bytes, *, broker: str, group: str, born_ms: int, key: str = ""
    ) -> SentMessage:
        """Send a message to a queue, and wait until the broker has stored it according to its settings.

        Args:
            topic: the topic.
            queue: the number of a write queue.
            body: the content.
            broker: the name of the broker group.
            group: the producer group.
            born_ms: Unix time at which the message was created, in milliseconds.
            key: the key of the message in the index of the broker.

        Raises:
            RefusedError: with code NO_PERMISSION when the topic is ordered and the broker is not writable, and with
                FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE when too few brokers stored it.
        """
        fields = {
            "a": group,
            "b": topic,
            "c": DEFAULT_TOPIC,
            "d": "4",
            "e": str(queue),
            "f": "0",
            "g": str(born_ms),
            "h": "0",
            "i": f"KEYS{NAME_SEPARATOR}{key}{PROPERTY_SEPARATOR}" if key else "",
            "j": "0",
            "k": "false",
            "m": "false",
            "n": broker,
        }
        response = await self._connection.request(
            RequestCode.SEND_MESSAGE_V2, fields, body, timeout_seconds=self._timeout
        )
        at = response.fields
        return SentMessage(text(at, "msgId"), integer(at, "queueId"), integer(at, "queueOffset"))

    async def pull(
        self, topic: str, queue: int, offset: int, *, broker: str, group: str, count: int = 32
    ) -> PulledMessages:
        """Return messages of a queue from an offset on, without waiting for new messages."""
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue),
            "queueOffset": str(offset),
            "maxMsgNums": str(count),
            "sysFlag": str(SUBSCRIPTION_FLAG),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
            "bname": broker,
        }
        response = await self._connection.request(
            RequestCode.PULL_MESSAGE,
            fields,
            timeout_seconds=self._timeout,
            accept=(ResponseCode.SUCCESS, *PULLED_NOTHING),
        )
        at = response.fields
        messages = read_messages(response.body) if response.code == ResponseCode.SUCCESS else ()
        return PulledMessages(
            messages, integer(at, "nextBeginOffset"), integer(at, "minOffset"), integer(at, "maxOffset")
        )

    async def commit(self, topic: str, queue: int, offset: int, *, group: str) -> None:
        """Store the offset of the next message that a consumer group will consume from a queue."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": str(offset)}
        await self._connection.request(RequestCode.UPDATE_CONSUMER_OFFSET, fields, timeout_seconds=self._timeout)


def read_messages(data: bytes) -> tuple[StoredMessage, ...]:
    """Return the messages in the body of a response to PULL_MESSAGE.

    Raises:
        DocumentError: the bytes are not messages, a body is compressed, or a checksum is wrong.
    """
    messages: list[StoredMessage] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size < 4 or at + size > len(data):
            raise DocumentError(f"a message of {size} bytes does not fit the {len(data) - at} bytes that are left")
        try:
            messages.append(_read_message(data[at : at + size]))
        except (struct.error, UnicodeDecodeError) as error:
            raise DocumentError("a message has lengths or texts that are not valid") from error
        at += size
    return tuple(messages)


def _read_message(data: bytes) -> StoredMessage:
    magic, checksum, queue, _, offset, _, flags = struct.unpack_from(">IIIIqqI", data, 4)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise DocumentError(f"{magic:#x} is not the start of a message")
    if flags & COMPRESSED_FLAG:
        raise DocumentError("a message has a compressed body, which this client does not read")
    # Time and host of birth, time and host of storing, number of deliveries, offset of the transaction.
    at = 40 + 8 + (20 if flags & BORN_HOST_V6_FLAG else 8) + 8 + (20 if flags & STORE_HOST_V6_FLAG else 8) + 4 + 8
    body, at = _sized(data, at, ">I")
    topic, at = _sized(data, at, ">H" if magic == MAGIC_V2 else ">B")
    properties, _ = _sized(data, at, ">H")
    # The broker clears the sign bit of the checksum.
    if zlib.crc32(body) & 0x7FFFFFFF != checksum & 0x7FFFFFFF:
        raise DocumentError(f"the checksum of the message at offset {offset} of queue {queue} is wrong")
    pairs = (pair.partition(NAME_SEPARATOR) for pair in properties.decode().split(PROPERTY_SEPARATOR))
    named = {name: value for name, separator, value in pairs if separator}
    return StoredMessage(topic.decode(), queue, offset, body, named)


def _sized(data: bytes, at: int, form: str) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(form, data, at)
    start = at + struct.calcsize(form)
    if start + size > len(data):
        raise DocumentError("a part of a message ends after the message")
    return data[start : start + size], start + size
