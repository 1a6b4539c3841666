"""Kills the remaining processes of a node and deletes its control groups when the node ends, also after a crash.

The node starts this file as a program, with the node's mark, its control groups and its temporary directory as
arguments. The program waits for the end of its standard input, which the node or its end closes. Then it kills all
processes with the mark in their environment, and deletes the control groups and the directory. It uses only the
standard library.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

MARK = "STEERSMAN_NODE"


def marked(mark: str) -> list[int]:
    """Return the other processes that have a mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue
    return found


def kill_marked(mark: str) -> None:
    """Kill all processes with a mark, also new ones; wait at most five seconds for their end."""
    for _ in range(250):
        left = marked(mark)
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def delete_group(group: str) -> bool:
    """Delete the control group of a node with those of its containers; return whether it is gone."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(group):
            if entry.is_dir():
                with contextlib.suppress(OSError):
                    os.rmdir(entry)
    with contextlib.suppress(OSError):
        os.rmdir(group)
    return not os.path.exists(group)


def clean(mark: str, groups: list[str], temporary: str = "") -> None:
    """Kill all processes with a mark, then delete the control groups and a temporary directory.

    Waits at most five seconds for the processes and for each group.
    """
    kill_marked(mark)
    for group in groups:
        for _ in range(250):
            if delete_group(group):
                break
            time.sleep(0.02)
    if temporary:
        shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while sys.stdin.buffer.read(4096):
        pass
    clean(sys.argv[1], sys.argv[3:], sys.argv[2])
