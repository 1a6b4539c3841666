"""The clusters of this user on this machine: names, records, and how to start and stop them.

Each cluster has a directory (0700) below the user's state directory with its kubeconfig, its record and, if it is
detached, its log (all 0600). The running process holds a lock on it. The lock ends with the process, so that a record
without a lock belongs to a killed cluster. A process is signalled only while it holds the lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from io import FileIO
from pathlib import Path
from typing import Any, Final, Literal, cast

from steersman_cluster.program import program

__all__ = [
    "DEFAULT_NAME",
    "Claim",
    "NameInUseError",
    "Record",
    "Seen",
    "StateError",
    "claim",
    "find",
    "image_directory",
    "names",
    "spawn",
    "state_directory",
    "stop",
]

DEFAULT_NAME: Final = "default"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POLL: Final = 0.05

State = Literal["running", "starting", "killed"]


class StateError(Exception):
    """The state of the clusters is unreadable or cannot be written; the message says what to do."""


class NameInUseError(StateError):
    """A cluster of this name runs."""


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a running cluster; it contains no secrets."""

    name: str
    pid: int
    steersman: str
    started: float
    """Seconds since the epoch."""
    detached: bool
    kubeconfig: str
    ready: bool = False
    url: str = ""
    kubernetes: str = ""
    data: str | None = None
    nodes: int = 0
    node_kind: str = "simulated"
    controllers: bool = True
    merged: str | None = None
    """The user's kubeconfig that the context was merged into."""
    context: str = ""
    audit_log: str | None = None
    log: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster as found on this machine."""

    record: Record
    state: State
    directory: Path


def state_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_STATE_HOME/steersman/clusters`, `~/.local/state/…` by default."""
    home = environment.get("XDG_STATE_HOME") or ""
    base = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state"
    return base / "steersman" / "clusters"


def image_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the images that this user has imported."""
    return state_directory(environment).parent / "images"


def checked(name: str) -> str:
    """The name, if it can be one. Raises `StateError`."""
    if _NAME.fullmatch(name) is None:
        raise StateError(f"{name!r} cannot name a cluster: use up to 63 of a-z, 0-9 and '-', with '-' at neither end")
    return name


class Claim:
    """A name that is ours for as long as this process lives."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"

    def record(self, record: Record) -> None:
        """Write the record of this cluster; the file is replaced atomically."""
        _write(self.directory / "state.json", json.dumps(asdict(record), indent=2).encode() + b"\n")


@contextmanager
def claim(name: str) -> Generator[Claim]:
    """Take a name for the time of a block, and leave nothing behind. Raises `NameInUseError`, `StateError`."""
    directory = state_directory() / checked(name)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise StateError(
            f"{problem.filename or directory} cannot be written: {problem.strerror}; clusters are remembered there. "
            "Set XDG_STATE_HOME to a directory that can be written"
        ) from None
    try:
        if not _locked(lock):
            raise NameInUseError(_taken(name, directory))
        made = Claim(name, directory)
        (directory / "state.json").unlink(missing_ok=True)  # of one that was killed
        try:
            yield made
        finally:
            with suppress(OSError):
                shutil.rmtree(directory)
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    # Another process that checks the lock holds it for a moment.
    for attempt in range(10):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0 if attempt == 0 else 0.02)
        else:
            return True
    return False


def _taken(name: str, directory: Path) -> str:
    record = _read(directory)
    by = f" (process {record.pid})" if record is not None else ""
    option = "" if name == DEFAULT_NAME else f" {name}"
    return f"cluster {name!r} runs already{by}: stop it with `{program()} stop{option}`, or start another with --name"


def names() -> list[str]:
    """The names of all clusters that run, or were killed and left a record."""
    root = state_directory()
    try:
        return sorted(path.name for path in root.iterdir() if _NAME.fullmatch(path.name) and (path / "lock").exists())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        raise StateError(f"{root} cannot be read: {problem.strerror}") from None


def find(name: str) -> Seen | None:
    """A cluster by name, or None; a name that was taken but never ran counts as none."""
    directory = state_directory() / checked(name)
    try:
        lock = os.open(directory / "lock", os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise StateError(f"{directory} cannot be read: {problem.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            alive = False
        except OSError:
            alive = True
        record = _read(directory)
    finally:
        os.close(lock)
    if record is None:
        return None
    state: State = "killed" if not alive else "running" if record.ready else "starting"
    return Seen(record, state, directory)


def stop(seen: Seen, timeout: float = 30.0) -> bool:
    """Ask a running cluster to stop and wait for it; kills it after `timeout` seconds and returns False then."""
    os.kill(seen.record.pid, signal.SIGTERM)
    if _wait_until_ended(seen, timeout):
        return True
    with suppress(ProcessLookupError):
        os.kill(seen.record.pid, signal.SIGKILL)
    _wait_until_ended(seen, 5.0)
    forget(seen)
    return False


def _wait_until_ended(seen: Seen, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        now = find(seen.record.name)
        if now is None or now.state == "killed" or now.record.pid != seen.record.pid:
            return True
        time.sleep(_POLL)
    return False


def forget(seen: Seen) -> None:
    """Remove what a killed cluster left behind; its data directory stays."""
    shutil.rmtree(seen.directory, ignore_errors=True)


def spawn(arguments: Sequence[str], name: str, timeout: float = 60.0) -> Seen:
    """Run `steersman-cluster ARGUMENTS` in the background and return when the cluster is ready.

    A KeyboardInterrupt ends the started process, too.

    Raises:
        StateError: The process ended; the message is its last output.
    """
    directory = state_directory() / checked(name)
    if (there := find(name)) is not None and there.state != "killed":
        raise NameInUseError(_taken(name, directory))
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = directory / "log"
        out = os.open(log, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    except OSError as problem:
        raise StateError(
            f"{problem.filename or directory} cannot be written: {problem.strerror}. "
            "Set XDG_STATE_HOME to a directory that can be written"
        ) from None
    with open(out, "rb", buffering=0) as said:  # kept open: the log goes with its directory when the process fails
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "steersman_cluster", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            return _ready(process, name, log, said, timeout)
        except BaseException:
            if process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
            raise


def _ready(process: subprocess.Popen[bytes], name: str, log: Path, said: FileIO, timeout: float) -> Seen:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if (code := process.poll()) is not None:
            with suppress(OSError):  # the last lines of the log are part of the error
                shutil.rmtree(log.parent)
            raise StateError(_last_output(said) or f"the cluster ended with code {code} and said nothing")
        seen = find(name)
        if seen is not None and seen.state == "running" and seen.record.pid == process.pid:
            return seen
        time.sleep(_POLL)
    raise StateError(f"the cluster is not ready after {timeout:g} s. It said last:\n{_last_output(said)}")


def _last_output(log: FileIO) -> str:
    """Return the last output of the process: its error, if there is one."""
    log.seek(0)
    lines = [line for line in log.readall().decode(errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return errors[-1] if errors else "\n".join(lines[-5:])


def _read(directory: Path) -> Record | None:
    try:
        found = json.loads((directory / "state.json").read_bytes())
        known = {field.name for field in fields(Record)}
        return Record(**{key: value for key, value in cast("dict[str, Any]", found).items() if key in known})
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)
