"""Removes what a node leaves behind. Started as a program, with the node's mark and its control groups.

It waits until its standard input ends, which happens when the node closes it or dies, however it dies; then it kills
every process whose environment bears the mark, until there is none, and deletes the control groups. It uses nothing but
the standard library.
"""

import contextlib
import os
import signal
import sys
import time

MARK = "STEERSMAN_NODE"


def marked(mark: str) -> list[int]:
    """The processes that bear a mark, but not this one."""
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
    """Kill them all, and what they start meanwhile; wait for their end, five seconds at most."""
    for _ in range(250):
        left = marked(mark)
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def delete_groups(groups: list[str]) -> None:
    """Delete the control groups of a node, once their processes have ended; within five seconds."""
    for group in groups:
        for _ in range(250):
            with contextlib.suppress(OSError):
                for entry in os.scandir(group):
                    if entry.is_dir():
                        with contextlib.suppress(OSError):
                            os.rmdir(entry)
            with contextlib.suppress(OSError):
                os.rmdir(group)
            if not os.path.exists(group):
                break
            time.sleep(0.02)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while sys.stdin.buffer.read(4096):
        pass
    kill_marked(sys.argv[1])
    delete_groups(sys.argv[2:])
