"""The database: acknowledged writes survive a kill, and an unusable file is an error with a message."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from steersman_cluster.storage import Database, DataError, Storage

PODS = ("", "pods")

WRITER = """
import sys
from pathlib import Path
from steersman_cluster.storage import Database, Storage

storage = Storage(Database(Path(sys.argv[1])))
n = 0
while True:
    n += 1
    item = storage.put(("", "pods"), "a", f"pod-{n % 50}", {"metadata": {"name": f"pod-{n % 50}"}, "n": n})
    sys.stdout.write(f"put {n % 50} {n} {item.revision}\\n")
    if n % 7 == 0:
        gone = storage.delete(("", "pods"), "a", f"pod-{n % 50}")
        sys.stdout.write(f"del {n % 50} 0 {gone.revision}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("lines", [1, 97, 1500])
def test_a_killed_process_loses_nothing_that_it_acknowledged(tmp_path: Path, lines: int):
    path = tmp_path / "cluster.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        heard = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        heard += process.stdout.read().splitlines(keepends=True)
    wanted: dict[str, int] = {}
    revision = 0
    for line in heard:
        if not line.endswith(b"\n"):
            continue  # cut off in the middle: never acknowledged
        verb, number, value, at = line.split()
        revision = int(at)
        if verb == b"put":
            wanted[f"pod-{number.decode()}"] = int(value)
        else:
            wanted.pop(f"pod-{number.decode()}")
    database = Database(path)
    storage = Storage(database)
    found = {item.name: item.object()["n"] for item in storage.items(PODS)}
    # At most the one write in progress may be stored beyond the acknowledged ones.
    different = {name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)}
    assert len(different) <= 1
    assert storage.revision - revision in (0, 1, 2)
    assert storage.revision > revision or not different
    database.close()


def test_a_cluster_that_stopped_begins_where_it_was(tmp_path: Path):
    database = Database(tmp_path / "cluster.db")
    storage = Storage(database)
    kept = storage.put(PODS, "a", "web", {"metadata": {"name": "web"}, "text": "ü\u2028"})
    storage.put(PODS, "a", "gone", {"metadata": {"name": "gone"}})
    storage.delete(PODS, "a", "gone")
    revision = storage.revision
    database.close()
    again = Storage(Database(tmp_path / "cluster.db"))
    assert again.revision == revision
    item = again.get(PODS, "a", "web")
    assert item is not None
    assert (item.value, item.revision) == (kept.value, kept.revision)
    assert again.put(PODS, "a", "web", item.object()).revision == revision + 1
    assert again.database is not None
    again.database.close()


def test_facts_are_kept_beside_the_objects(tmp_path: Path):
    database = Database(tmp_path / "cluster.db")
    database.remember("ca.crt", b"pem")
    database.close()
    again = Database(tmp_path / "cluster.db")
    assert again.fact("ca.crt") == b"pem"
    assert again.fact("nothing") is None
    again.close()


def test_only_its_owner_may_read_the_file(tmp_path: Path):
    database = Database(tmp_path / "new" / "cluster.db")
    assert stat.S_IMODE(database.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(database.path.parent.stat().st_mode) == 0o700
    database.close()


def test_a_second_cluster_on_the_same_data_is_refused(tmp_path: Path):
    database = Database(tmp_path / "cluster.db")
    with pytest.raises(DataError, match="in use by another cluster"):
        Database(tmp_path / "cluster.db")
    database.close()


def test_a_file_that_is_no_database_is_refused_in_words(tmp_path: Path):
    path = tmp_path / "cluster.db"
    path.write_bytes(b"no database at all, but long enough to be looked at" * 50)
    with pytest.raises(DataError, match=r"no data of a cluster.*move it away"):
        Database(path)


def test_data_of_another_version_is_refused_in_words(tmp_path: Path):
    database = Database(tmp_path / "cluster.db")
    database.remember("version", b"99")
    database.close()
    with pytest.raises(DataError, match="data version 99"):
        Database(tmp_path / "cluster.db")


@pytest.mark.parametrize(
    ("directory", "told"),
    [
        ("file", "is no directory"),
        ("file/below", "cannot be made: Not a directory"),
        ("dangling", "is no directory"),
        ("taken", "is no file"),
        ("/proc/nowhere", "cannot be made: No such file or directory"),
    ],
)
def test_a_place_where_nothing_can_be_kept_is_refused_in_words(tmp_path: Path, directory: str, told: str):
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "taken" / "cluster.db").mkdir(parents=True)
    with pytest.raises(DataError, match=f"{told}.*; choose another --data"):
        Database(tmp_path / directory / "cluster.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_is_refused_in_words(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="cannot be written; choose another --data"):
        Database(tmp_path / "cluster.db")


def test_a_write_that_the_disk_refuses_changes_nothing(tmp_path: Path):
    database = Database(tmp_path / "cluster.db")
    storage = Storage(database)
    storage.put(PODS, "a", "web", {"metadata": {"name": "web"}})
    before = storage.revision
    database._db.execute("pragma query_only=on")
    with pytest.raises(sqlite3.OperationalError):
        storage.put(PODS, "a", "other", {"metadata": {"name": "other"}})
    with pytest.raises(sqlite3.OperationalError):
        storage.delete(PODS, "a", "web")
    assert storage.revision == before
    assert [item.name for item in storage.items(PODS)] == ["web"]
    database._db.execute("pragma query_only=off")
    storage.delete(PODS, "a", "web")
    assert storage.revision == before + 1
    database.close()
