"""Holds the tmpfs file systems of a node's Pods in a separate mount namespace. The node starts this file as a program.

Each line of standard input is a command, each line of standard output a response. When the input ends, because the node
closes it or has ended, the program ends too, and its namespace with the file systems that no container uses. Nothing is
mounted on the machine itself. The program uses only the standard library.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_SLAVE = 2, 4, 16384, 1 << 19
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def enter(user_namespace: int) -> None:
    """Move this process into a new mount namespace, which follows the mounts of the machine.

    Args:
        user_namespace: A descriptor of the user namespace that owns it; -1 for a new one if this process is not root.
    """
    user, group = os.geteuid(), os.getegid()
    if user_namespace >= 0:
        _call("setns", user_namespace, _CLONE_NEWUSER)
        os.close(user_namespace)
        user = 0
    _call("unshare", _CLONE_NEWNS | (_CLONE_NEWUSER if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _call("mount", None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None)


def perform(command: dict[str, str]) -> None:
    """Mount (`mount`, with `options`) or detach (`unmount`) the file system at `path`. Raises `OSError`."""
    path = os.fsencode(command["path"])
    if command["what"] == "mount":
        flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV)
        _call("mount", b"tmpfs", path, b"tmpfs", flags, os.fsencode(command["options"]))
    else:
        _call("umount2", path, _MNT_DETACH)


def respond_to(line: str) -> dict[str, object]:
    """Perform one command; return `{}`, or the number and the text of its error."""
    try:
        perform(json.loads(line))
    except OSError as problem:
        return {"errno": problem.errno, "error": problem.strerror or str(problem)}
    return {}


def send(answer: dict[str, object]) -> None:
    """Write a response."""
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


def main() -> None:
    """Enter the namespaces, confirm with an empty response, and perform commands until the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        try:
            enter(int(sys.argv[1]))
        except OSError as problem:
            send({"errno": problem.errno, "error": problem.strerror})
            return
        send({})
        for line in sys.stdin:
            send(respond_to(line))


if __name__ == "__main__":
    main()
