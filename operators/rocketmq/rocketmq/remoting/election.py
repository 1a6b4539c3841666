"""Commands of the servers that elect masters: the controllers, and the members of a DLedger group."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from rocketmq.remoting.codes import RequestCode, ResponseCode
from rocketmq.remoting.connection import REQUEST_TIMEOUT_SECONDS, Connection
from rocketmq.remoting.errors import DocumentError, RemotingError
from rocketmq.remoting.json_documents import read_document
from rocketmq.remoting.records import integer, mapping, object_list, objects, text

DLEDGER_SUCCESS = 200
"""The code of success in the header and in the body of DLedger's responses."""
DLEDGER_EXPIRED_TERM = 403


@dataclass(frozen=True)
class ControllerMetadata:
    """The state of the group of controllers, as one of them reports it."""

    leader_id: str
    leader_address: str
    is_leader: bool


@dataclass(frozen=True)
class Replica:
    """A member of a broker group, as the controllers report it."""

    broker_id: int
    address: str
    alive: bool


@dataclass(frozen=True)
class SyncState:
    """The master of a broker group, and the members with all messages that it acknowledged."""

    master_id: int
    master_address: str
    master_epoch: int
    in_sync: tuple[Replica, ...]
    out_of_sync: tuple[Replica, ...]


@dataclass(frozen=True)
class DLedgerMetadata:
    """The leader of a DLedger group, as one of its members reports it."""

    leader_id: str
    peers: Mapping[str, str]


class ControllerAdmin:
    """Commands of a controller.

    Every command raises `RemotingError` when the server refuses it, does not answer in time, or closes the connection.

    Args:
        connection: an open connection to a controller.
        timeout_seconds: how long one command may take.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        self._connection = connection
        self._timeout = timeout_seconds

    async def metadata(self) -> ControllerMetadata:
        """Return the leading controller; each member answers this request."""
        request = RequestCode.CONTROLLER_GET_METADATA_INFO
        fields = (await self._connection.request(request, timeout_seconds=self._timeout)).fields
        leader = fields.get("controllerLeaderId", ""), fields.get("controllerLeaderAddress", "")
        return ControllerMetadata(*leader, is_leader=fields.get("isLeader", "") == "true")

    async def sync_state(self, groups: tuple[str, ...]) -> dict[str, SyncState]:
        """Return the state of broker groups by name; only the leader answers this request."""
        request, body = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, msgspec.json.encode(groups)
        return read_sync_state((await self._connection.request(request, {}, body, timeout_seconds=self._timeout)).body)

    async def elect_master(self, cluster: str, group: str, broker_id: int, now_ms: int) -> None:
        """Make an in-sync member the master of its group; only the leader answers this request.

        Args:
            cluster: the name of the RocketMQ cluster.
            group: the name of the broker group.
            broker_id: the number that the controllers gave to the member.
            now_ms: the Unix time in milliseconds.
        """
        fields = {
            "clusterName": cluster,
            "brokerName": group,
            "brokerId": str(broker_id),
            "designateElect": "true",
            "invokeTime": str(now_ms),
        }
        await self._connection.request(RequestCode.CONTROLLER_ELECT_MASTER, fields, timeout_seconds=self._timeout)


class DLedgerAdmin:
    """Commands of a member of a DLedger group, on its own port.

    Args:
        connection: an open connection to the DLedger port.
        group: the name of the group.
        self_id: the id of the member at the other end of the connection.
        timeout_seconds: how long one command may take.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        self_id: str,
        *,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        self._connection = connection
        self._group = group
        self._self_id = self_id
        self._timeout = timeout_seconds

    async def metadata(self) -> DLedgerMetadata:
        """Return the leader that this member follows."""
        document = await self._call(RequestCode.DLEDGER_METADATA, {})
        peers = mapping(document.get("peers"), "peers")
        leader = document.get("leaderId")
        return DLedgerMetadata(
            leader if isinstance(leader, str) else "",
            {id_: text(peers, id_) for id_ in peers},
        )

    async def term(self, peer: str) -> int:
        """Return the current term, which the metadata does not contain.

        This sends a heartbeat of an earlier term: the member answers with its own term and otherwise ignores it.

        Args:
            peer: the id of another member of the group.
        """
        request = {"leaderId": peer, "localId": peer, "term": -1}
        return integer(await self._call(RequestCode.DLEDGER_HEARTBEAT, request, DLEDGER_EXPIRED_TERM), "term")

    async def transfer_leadership(self, target: str, term: int) -> None:
        """Transfer the leadership from this member to another one, which must have all entries.

        Args:
            target: the id of the next leader.
            term: the current term.
        """
        request = {"leaderId": self._self_id, "term": term, "transferId": self._self_id, "transfereeId": target}
        await self._call(RequestCode.DLEDGER_LEADERSHIP_TRANSFER, request)

    async def _call(
        self, code: RequestCode, request: Mapping[str, object], expected: int = DLEDGER_SUCCESS
    ) -> Mapping[str, object]:
        whole = {"group": self._group, "remoteId": self._self_id, **request}
        response = await self._connection.request(
            code,
            {},
            msgspec.json.encode(whole),
            timeout_seconds=self._timeout,
            accept=(ResponseCode.SUCCESS, DLEDGER_SUCCESS),
        )
        document = read_document(response.body, "the answer of DLedger")
        code_of_answer = integer(document, "code")
        if code_of_answer != expected:
            raise RemotingError(f"{self._connection.address} refused DLedger request {code} with {code_of_answer}")
        return document


def read_sync_state(body: bytes) -> dict[str, SyncState]:
    """Return the content of the response to CONTROLLER_GET_SYNC_STATE_DATA."""
    document = read_document(body, "the sync state")
    found: dict[str, SyncState] = {}
    for group, item in objects(document, "replicasInfoTable").items():
        master = item.get("masterBrokerId")
        address = item.get("masterAddress")
        found[group] = SyncState(
            master_id=master if isinstance(master, int) else -1,
            master_address=address if isinstance(address, str) else "",
            master_epoch=integer(item, "masterEpoch"),
            in_sync=_replicas(item, "inSyncReplicas"),
            out_of_sync=_replicas(item, "notInSyncReplicas"),
        )
    return found


def _replicas(item: Mapping[str, object], name: str) -> tuple[Replica, ...]:
    found: list[Replica] = []
    for each in object_list(item, name):
        identity, alive = each.get("brokerId"), each.get("alive")
        if not isinstance(identity, int):
            raise DocumentError("brokerId is not an integer")
        found.append(Replica(identity, text(each, "brokerAddress"), alive is True))
    return tuple(found)
