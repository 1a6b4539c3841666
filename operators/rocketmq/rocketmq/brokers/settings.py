"""The settings of each member: those that a running broker applies, and those that need a restart."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rocketmq.api.v1.broker_types import Broker, in_sync_replicas
from rocketmq.brokers.names import Member, group_name, host, members_of
from rocketmq.pods import STORE

__all__ = ["LIVE_KEYS", "Endpoints", "is_applied", "live", "restart_hash", "settings_of"]

DEFAULTS = {
    # The interval in which a broker reads its list of name servers, in milliseconds.
    "updateNameServerAddrPeriod": "5000",
    # The shortest interval that brokers accept, so that new name servers soon have all routes.
    "registerNameServerPeriod": "10000",
}
"""Settings of all brokers that the spec may change."""
CONTROLLER_MODE_DEFAULTS = {
    # Controllers replace a master that sends no heartbeat for this time. With the default of 10 seconds, the interval
    # of the scan and the time of a client's next attempt, a producer could wait for more than 12 seconds.
    "controllerHeartBeatTimeoutMills": "6000",
}
"""Settings of brokers in mode CONTROLLER that the spec may change."""
READ, READ_WRITE = "4", "6"

LIVE_KEYS = frozenset(
    {
        "autoCreateSubscriptionGroup",
        "autoCreateTopicEnable",
        "brokerPermission",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "fileReservedTime",
        "flushCommitLogLeastPages",
        "flushIntervalCommitLog",
        "inSyncReplicas",
        "longPollingEnable",
        "maxMessageSize",
        "minInSyncReplicas",
        "namesrvAddr",
        "rejectTransactionMessage",
        "slaveReadEnable",
        "traceTopicEnable",
        "transactionCheckInterval",
        "transactionCheckMax",
        "transactionTimeOut",
        "waitTimeMillsInHeartbeatQueue",
        "waitTimeMillsInPullQueue",
        "waitTimeMillsInSendQueue",
    }
)
"""Settings that a running broker of 5.4 and 5.5 applies. Any other setting needs a restart."""


@dataclass(frozen=True)
class Endpoints:
    """The addresses of the name servers and controllers for the members."""

    name_servers: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()


def settings_of(broker: Broker, member: Member, endpoints: Endpoints, *, writable: bool = True) -> dict[str, str]:
    """Return all settings of a member.

    Args:
        broker: the Broker.
        member: one of its members.
        endpoints: the name servers and the controllers.
        writable: whether clients may send messages to the group.
    """
    spec = broker.spec
    acknowledging, low = in_sync_replicas(spec)
    fixed = {
        "brokerClusterName": spec.cluster_name or broker.metadata.name,
        "brokerName": group_name(broker.metadata.name, member.group),
        "listenPort": str(spec.ports.listen),
        "haListenPort": str(spec.ports.ha),
        "namesrvAddr": ";".join(endpoints.name_servers),
        "storePathRootDir": f"{STORE}/store",
        "storePathCommitLog": f"{STORE}/store/commitlog",
        "flushDiskType": f"{spec.flush_disk_type}_FLUSH",
        "inSyncReplicas": str(acknowledging),
        "minInSyncReplicas": str(low),
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": str(spec.ports.metrics),
        "brokerPermission": READ_WRITE if writable else READ,
    }
    defaults = CONTROLLER_MODE_DEFAULTS if spec.cluster_mode == "CONTROLLER" else {}
    return {**DEFAULTS, **defaults, **spec.config, **fixed, **_mode(broker, member, endpoints)}


def _mode(broker: Broker, member: Member, endpoints: Endpoints) -> dict[str, str]:
    spec = broker.spec
    if spec.cluster_mode == "STATIC":
        role = f"{spec.replication_mode}_MASTER" if member.index == 0 else "SLAVE"
        return {"brokerId": str(member.index), "brokerRole": role}
    if spec.cluster_mode == "DLEDGER":
        peers = (
            f"n{each.index}-{host(broker, each)}:{spec.ports.dledger}" for each in members_of(broker, member.group)
        )
        return {
            "enableDLegerCommitLog": "true",
            "dLegerGroup": group_name(broker.metadata.name, member.group),
            "dLegerPeers": ";".join(peers),
            "dLegerSelfId": f"n{member.index}",
        }
    return {
        "enableControllerMode": "true",
        "controllerAddr": ";".join(endpoints.controllers),
        "brokerRole": "SLAVE",
        "allAckInSyncStateSet": "true" if spec.replication_mode == "SYNC" else "false",
    }


def live(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a running broker applies."""
    return {name: value for name, value in settings.items() if name in LIVE_KEYS}


def is_applied(wanted: str, reported: str | None) -> bool:
    """Return whether a broker reports the desired value of a setting; it writes numbers and booleans in its own form.

    Args:
        wanted: the value in the configuration, such as `TRUE` or `+72`.
        reported: the value that the broker reports, such as `true` or `72`; `None` if it does not report the setting.
    """
    if reported in ("true", "false"):
        return (wanted.lower() == "true") == (reported == "true")
    if reported is not None and re.fullmatch(r"-?\d+", reported) and re.fullmatch(r"[+-]?\d+", wanted, re.ASCII):
        return int(wanted) == int(reported)
    return wanted == reported


def restart_hash(settings: Mapping[str, str], template: object) -> str:
    """Return a hash that changes when a member must restart, because its other settings or its Pod template change."""
    kept = sorted((name, value) for name, value in settings.items() if name not in LIVE_KEYS)
    return digest((kept, template))


def digest(parts: Iterable[object]) -> str:
    """Return a short hash of JSON values."""
    return hashlib.sha256(json.dumps(list(parts), sort_keys=True).encode()).hexdigest()[:16]
