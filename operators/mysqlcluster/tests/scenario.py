"""What a cluster of databases must survive, on every kind of cluster that runs Pods.

`Tier` is what differs between process nodes and a real node. `Database` drives one MySQLCluster through the API.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Protocol

import pymysql
from pymysql.constants import ER
from steersman.testing import Cluster

from .history import Attempt, History, Outcome, problems

KIND = "mysqlclusters.database.example.com"
SWITCHOVERS = "mysqlswitchovers.database.example.com"
BACKUPS = "mysqlbackups.database.example.com"
API = "database.example.com/v1alpha1"
WAIT_SECONDS = 240.0
ATTEMPT_SECONDS = 3
PORT = 3306
WRITERS = 4
SWITCHOVER_ATTEMPTS = 5
SPEC: Mapping[str, Any] = {
    # A lost primary may have logged transactions that no replica acknowledged. Their number depends on the moment.
    "rejoin": {"errantPolicy": "Reclone"},
    "failover": {"detectionSeconds": 2, "minIntervalSeconds": 0},
}
"""Fields of the spec that the scenarios need."""
_numbers = itertools.count(1)


class Tier(Protocol):
    """A cluster that runs the operator and its Pods."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        ...

    def primary_address(self, name: str) -> tuple[str, int]:
        """Return an address of this machine that leads to the primary of a MySQLCluster. Raises `LookupError`."""
        ...

    def member_address(self, pod: str) -> contextlib.AbstractContextManager[tuple[str, int]]:
        """Return an address of this machine that leads to the server of a member."""
        ...

    def kill_server(self, pod: str) -> None:
        """Kill the database server of a member with SIGKILL."""
        ...


def until(holds: Callable[[], Any], what: str | Callable[[], object], seconds: float = WAIT_SECONDS) -> Any:
    """Return the first true result of a condition."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def cordoned(cluster: Cluster) -> Generator[None]:
    """Make all nodes unschedulable, so that a deleted Pod is not replaced before the end of the block."""
    nodes = [node["metadata"]["name"] for node in cluster.list("nodes")]
    for node in nodes:
        cluster.patch("nodes", node, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        for node in nodes:
            cluster.patch("nodes", node, {"spec": {"unschedulable": None}})


class Database:
    """One MySQLCluster."""

    def __init__(self, tier: Tier, name: str) -> None:
        self.tier = tier
        self.name = name

    @property
    def cluster(self) -> Cluster:
        return self.tier.cluster

    def status(self) -> dict[str, Any]:
        return (self.cluster.get(KIND, self.name) or {}).get("status") or {}

    def healthy(self) -> dict[str, Any]:
        """Return the status of a cluster in which every member follows the primary; otherwise an empty one."""
        found = self.cluster.get(KIND, self.name) or {}
        state: dict[str, Any] = found.get("status") or {}
        whole = len(state.get("quorum", {}).get("members", ())) == found.get("spec", {}).get("size")
        return state if state.get("phase") == "Running" and whole and not state.get("transition") else {}

    def wait_healthy(self) -> dict[str, Any]:
        return until(self.healthy, lambda: f"{self.name} is not healthy: {self.status()}")

    def moved(self, former: str) -> dict[str, Any]:
        """Wait until another member than `former` is the primary."""

        def found() -> dict[str, Any]:
            state = self.status()
            return state if state.get("primary") not in ("", None, former) and not state.get("transition") else {}

        return until(found, lambda: f"{former} is still the primary: {self.status()}")

    def roles(self) -> dict[str, str]:
        pods = self.cluster.list("pods", labels=f"mysqlcluster_cr={self.name},app=mysqlcluster")
        return {pod["metadata"]["name"]: pod["metadata"]["labels"].get("mysqlcluster_role", "") for pod in pods}

    @contextlib.contextmanager
    def session(self, address: tuple[str, int]) -> Iterator[Any]:
        """Connect with the account of applications, over TLS."""
        secret = self.cluster.get("secrets", f"{self.name}-accounts")
        assert secret is not None
        connection = pymysql.connect(
            host=address[0],
            port=address[1],
            user="app",
            password=base64.b64decode(secret["data"]["application-password"]).decode(),
            database="app",
            autocommit=True,
            connect_timeout=ATTEMPT_SECONDS,
            read_timeout=ATTEMPT_SECONDS,
            write_timeout=ATTEMPT_SECONDS,
            ssl={"check_hostname": False, "verify_mode": False},
        )
        with contextlib.closing(connection), connection.cursor() as cursor:
            yield cursor

    def numbers(self, member: str) -> set[int]:
        """Return the numbers that a member has."""
        with self.tier.member_address(member) as address, self.session(address) as cursor:
            cursor.execute("SELECT id FROM items")
            return {row[0] for row in cursor.fetchall()}

    def create_table(self) -> None:
        with self.session(self.tier.primary_address(self.name)) as cursor:
            cursor.execute("CREATE TABLE items (id BIGINT PRIMARY KEY)")


class Writers:
    """Threads that insert unique numbers at the primary's address, and the history of their attempts."""

    def __init__(self, database: Database, count: int = WRITERS) -> None:
        self._database = database
        self._numbers = itertools.count(1)
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._write, daemon=True) for _ in range(count)]
        self.history = History()

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(30)

    @property
    def acknowledged(self) -> int:
        return len(self.history.numbers(Outcome.OK))

    def longest_gap(self, since: float) -> float:
        """Return the longest time without an acknowledgement after a time of `time.monotonic`."""
        attempts = list(self.history.attempts)
        times = sorted(each.answered for each in attempts if each.outcome is Outcome.OK and each.answered > since)
        return max(later - earlier for earlier, later in itertools.pairwise([since, *times]))

    def wait_acknowledged(self, more: int = 50) -> None:
        """Wait until more writes are acknowledged."""
        wanted = self.acknowledged + more
        until(
            lambda: self.acknowledged >= wanted, lambda: f"no write is acknowledged: {self._database.status()}", 120.0
        )

    def _write(self) -> None:
        database = self._database
        while not self._ending.is_set():
            with contextlib.suppress(pymysql.Error, OSError, LookupError):
                address = database.tier.primary_address(database.name)
                with database.session(address) as cursor:
                    while not self._ending.is_set() and self._attempt(cursor) is Outcome.OK:
                        pass
            self._ending.wait(0.05)

    def _attempt(self, cursor: Any) -> Outcome:
        number, outcome = next(self._numbers), Outcome.UNKNOWN
        try:
            cursor.execute("INSERT INTO items VALUES (%s)", (number,))
            outcome = Outcome.OK
        except pymysql.Error as problem:
            if problem.args and problem.args[0] == ER.OPTION_PREVENTS_STATEMENT:
                outcome = Outcome.FAILED
        except OSError:
            pass
        finally:
            self.history.attempts.append(Attempt(number, "", outcome, time.monotonic()))
        return outcome


def started(tier: Tier, manifest: Mapping[str, Any]) -> Database:
    """Create a MySQLCluster, wait until all members replicate, and create the table of the writers."""
    tier.cluster.apply(manifest)
    database = Database(tier, manifest["metadata"]["name"])
    database.wait_healthy()
    database.create_table()
    return database


def wait_replicated(database: Database, writers: Writers) -> None:
    """Wait until every member has the last acknowledged write: `Running` includes replicas that still receive."""
    wanted = max(writers.history.numbers(Outcome.OK))
    for member in database.wait_healthy()["members"]:
        until(lambda name=member["name"]: wanted in database.numbers(name), f"{member['name']} has no write {wanted}")


def check_history(database: Database, writers: Writers) -> None:
    """Check that every member has all acknowledged writes, none that failed, and that all members are equal."""
    members = [each["name"] for each in database.wait_healthy()["members"]]

    def read() -> dict[str, set[int]]:
        return {member: database.numbers(member) for member in members}

    # Replicas apply the last transactions after the primary has acknowledged them.
    until(lambda: len({frozenset(found) for found in read().values()}) == 1, lambda: problems(writers.history, read()))
    found = problems(writers.history, read())
    assert not found, found


def survives_a_killed_server(database: Database, writers: Writers) -> None:
    """Kill the server of the primary with SIGKILL: writes continue, at this member or at another."""
    database.tier.kill_server(database.wait_healthy()["primary"])
    writers.wait_acknowledged()
    database.wait_healthy()


def survives_the_loss_of_the_primary(database: Database, writers: Writers) -> float:
    """Delete the Pod of the primary and keep it away until another member is the primary.

    Returns:
        The longest time between two acknowledged writes, in seconds.
    """
    before = database.wait_healthy()
    with cordoned(database.cluster):  # a primary that restarts within the detection time would stay the primary
        lost = time.monotonic()
        database.tier.kill_server(before["primary"])
        database.cluster.delete("pods", before["primary"])
        database.moved(before["primary"])
        writers.wait_acknowledged()
    after = database.wait_healthy()
    assert after["epoch"] > before["epoch"]
    expected = {each["name"]: "replica" for each in after["members"]} | {after["primary"]: "primary"}
    until(lambda: database.roles() == expected, lambda: f"the labels of the Pods are {database.roles()}")
    return writers.longest_gap(since=lost)


def moves_its_primary(database: Database, writers: Writers) -> None:
    """Move the primary by a MySQLSwitchover while clients write."""
    before = database.wait_healthy()["primary"]
    target = next(each["name"] for each in database.status()["members"] if each["name"] != before)
    for _ in range(SWITCHOVER_ATTEMPTS):
        found = _switchover(database, f"{database.name}-to-{target}-{next(_numbers)}", target)
        if found["phase"] == "Completed":
            break
        # On a busy machine the target may not catch up in time; then the primary stays, and loses no write.
        assert "after another change" in found["message"], found
    assert database.wait_healthy()["primary"] == target
    writers.wait_acknowledged()


def _switchover(database: Database, name: str, target: str) -> dict[str, Any]:
    """Create a MySQLSwitchover, and return its status when it has ended."""
    spec = {"cluster": database.name, "target": target, "reason": "maintenance"}
    database.cluster.apply({"apiVersion": API, "kind": "MySQLSwitchover", "metadata": {"name": name}, "spec": spec})

    def status() -> dict[str, Any]:
        return (database.cluster.get(SWITCHOVERS, name) or {}).get("status") or {}

    until(lambda: status().get("phase") in ("Completed", "Refused"), lambda: f"the switchover is {status()}")
    return status()


def restores_a_backup(database: Database, copy: Mapping[str, Any]) -> None:
    """Take a backup, and create another cluster from it; it has all rows that the backup began with."""
    expected = database.numbers(database.wait_healthy()["primary"])
    backup = {
        "apiVersion": API,
        "kind": "MySQLBackup",
        "metadata": {"name": copy["spec"]["fromBackup"]},
        "spec": {"cluster": database.name},
    }
    database.cluster.apply(backup)

    def state() -> dict[str, Any]:
        return (database.cluster.get(BACKUPS, backup["metadata"]["name"]) or {}).get("status") or {}

    until(lambda: state().get("phase") in ("Completed", "Failed"), lambda: f"the backup is {state()}")
    assert state()["phase"] == "Completed", state()
    database.cluster.apply(copy)
    restored = Database(database.tier, copy["metadata"]["name"])
    restored.wait_healthy()
    assert expected <= restored.numbers(f"{restored.name}-0")
