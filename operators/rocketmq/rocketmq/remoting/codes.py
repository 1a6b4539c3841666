"""Numbers of the remoting protocol that the admin client uses."""

from enum import IntEnum, IntFlag


class RequestCode(IntEnum):
    """Codes of requests.

    Source: org.apache.rocketmq.remoting.protocol.RequestCode of 5.5.0, and DLedgerRequestCode of DLedger 0.3.2.
    """

    PULL_MESSAGE = 11
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    GET_ALL_TOPIC_CONFIG = 21
    UPDATE_BROKER_CONFIG = 25
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    SEND_MESSAGE_V2 = 310
    ADD_WRITE_PERM_OF_BROKER = 327
    CONTROLLER_ELECT_MASTER = 1002
    CONTROLLER_GET_METADATA_INFO = 1005
    CONTROLLER_GET_SYNC_STATE_DATA = 1006
    DLEDGER_METADATA = 50000
    DLEDGER_HEARTBEAT = 51002
    DLEDGER_LEADERSHIP_TRANSFER = 51005


class ResponseCode(IntEnum):
    """Codes of responses.

    Source: org.apache.rocketmq.remoting.protocol.ResponseCode of 5.5.0.
    """

    SUCCESS = 0
    SYSTEM_ERROR = 1
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_GROUP_NOT_EXIST = 26


class Permission(IntFlag):
    """The permissions of clients on the queues of a topic, or on a broker."""

    NONE = 0
    WRITE = 2
    READ = 4
