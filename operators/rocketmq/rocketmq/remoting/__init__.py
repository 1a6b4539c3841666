"""RocketMQ's remoting protocol: frames of a JSON header and a body, connections, and administration commands."""

from rocketmq.remoting.admin import BrokerAdmin, NameServerAdmin
from rocketmq.remoting.codes import Permission, RequestCode, ResponseCode
from rocketmq.remoting.connection import Connection
from rocketmq.remoting.election import (
    ControllerAdmin,
    ControllerMetadata,
    DLedgerAdmin,
    DLedgerMetadata,
    Replica,
    SyncState,
)
from rocketmq.remoting.errors import (
    ConnectionClosedError,
    DocumentError,
    RefusedError,
    RemotingError,
    RequestTimeoutError,
)
from rocketmq.remoting.frames import Command, FrameError, FrameParser, encode
from rocketmq.remoting.messages import MessageClient, PulledMessages, SentMessage, StoredMessage
from rocketmq.remoting.records import (
    BrokerGroup,
    ClusterInfo,
    ConsumerStats,
    QueueOffset,
    SubscriptionGroup,
    TopicConfig,
    TopicQueues,
    TopicRoute,
)

__all__ = [
    "BrokerAdmin",
    "BrokerGroup",
    "ClusterInfo",
    "Command",
    "Connection",
    "ConnectionClosedError",
    "ConsumerStats",
    "ControllerAdmin",
    "ControllerMetadata",
    "DLedgerAdmin",
    "DLedgerMetadata",
    "DocumentError",
    "FrameError",
    "FrameParser",
    "MessageClient",
    "NameServerAdmin",
    "Permission",
    "PulledMessages",
    "QueueOffset",
    "RefusedError",
    "RemotingError",
    "Replica",
    "RequestCode",
    "RequestTimeoutError",
    "ResponseCode",
    "SentMessage",
    "StoredMessage",
    "SubscriptionGroup",
    "SyncState",
    "TopicConfig",
    "TopicQueues",
    "TopicRoute",
    "encode",
]
