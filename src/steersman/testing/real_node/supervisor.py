"""Creates the namespaces of a real node, and removes them afterwards. Started as a program.

The arguments are the directory of the node, the name of its control groups and `keep` or `delete` (the directory). The
program ends, with all processes of the node, when its standard input ends, which happens when the owner closes it or
ends in any way. If the program itself is killed, the kernel kills the processes, and the next start of a node deletes
the control groups. It uses only the standard library.

The supervisor starts a process that creates the namespaces, and that starts the first process of the PID namespace.
Each has a parent death signal, so that it is killed when its parent ends.
"""

import contextlib
import ctypes
import glob
import json
import os
import shutil
import signal
import sys
import threading
import time

GROUP_PREFIX = "steersman-node-"
CGROUPS = "/sys/fs/cgroup"

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC, _CLONE_NEWPID, _CLONE_NEWNET = (
    0x00020000,
    0x04000000,
    0x08000000,
    0x20000000,
    0x40000000,
)
_REMOVE_SECONDS = 10.0


def group_directories(name: str) -> list[str]:
    """Return the directories of a control group: one on cgroup v2, one for each controller on v1."""
    if os.path.exists(f"{CGROUPS}/cgroup.controllers"):
        return [f"{CGROUPS}/{name}"]
    return [f"{os.path.dirname(found)}/{name}" for found in glob.glob(f"{CGROUPS}/*/cgroup.procs")]


def make_groups(name: str) -> None:
    """Create the control groups of a node."""
    for directory in group_directories(name):
        os.makedirs(directory, exist_ok=True)
        # A new cpuset of cgroup v1 has no CPUs, and refuses processes until CPUs are set.
        for file in ("cpuset.cpus", "cpuset.mems"):
            path, parent = f"{directory}/{file}", f"{os.path.dirname(directory)}/{file}"
            if "/cpuset/" in path and os.path.exists(parent):
                with open(parent) as source, open(path, "w") as target:
                    target.write(source.read())


def remove_groups(name: str) -> bool:
    """Delete the control groups of a node, children first; return whether all are deleted."""
    for top in group_directories(name):
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
    return not any(os.path.exists(top) for top in group_directories(name))


def remove_stale_groups() -> None:
    """Delete the control groups of nodes whose supervisor, the process id at the end of their names, was killed."""
    pattern = f"{GROUP_PREFIX}*"
    found = {os.path.basename(path) for path in glob.glob(f"{CGROUPS}/{pattern}") + glob.glob(f"{CGROUPS}/*/{pattern}")}
    for name in found:
        pid = name.removeprefix(GROUP_PREFIX)
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                alive = os.path.basename(__file__).encode() in file.read()
        except OSError:
            alive = False
        if not alive:
            remove_groups(name)


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library; raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def die_with_parent() -> None:
    """Set the parent death signal: the kernel kills this process when its parent ends."""
    call("prctl", _PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)


def create_namespaces(first_process: list[str]) -> int:
    """Create the namespaces in a new process, and start their first process; return its id in this PID namespace."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            die_with_parent()
            call("unshare", _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET)
            first = os.fork()
            if first == 0:
                die_with_parent()
                os.execv(first_process[0], first_process)  # noqa: S606
            os.write(write, str(first).encode())
            os.close(write)
            os.waitpid(first, 0)
        except OSError as error:
            os.write(2, f"unshare: {error}\n".encode())
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        first = answer.read()
    if not first:
        raise SystemExit(1)
    return int(first)


def main(directory: str, *, keep: bool) -> None:
    """Run until standard input or the first process ends, then end the node and remove its namespaces and files."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    remove_stale_groups()
    group = f"{GROUP_PREFIX}{os.getpid()}"
    make_groups(group)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "first_process.py")
    first = 0
    ended = threading.Event()
    try:
        first = create_namespaces([sys.executable, "-I", "-S", program, directory])
        with open(f"{directory}/.supervisor.json", "w") as file:
            json.dump({"first": first, "cgroup": group}, file)
        os.rename(f"{directory}/.supervisor.json", f"{directory}/supervisor.json")
        threading.Thread(target=_kill_at_end_of_input, args=(first, ended), daemon=True).start()
        os.wait()
    finally:
        if first:
            with contextlib.suppress(ProcessLookupError):
                os.kill(first, signal.SIGKILL)
        deadline = time.monotonic() + _REMOVE_SECONDS
        while not remove_groups(group) and time.monotonic() < deadline:
            time.sleep(0.02)
        # If the owner still runs, it first reads the logs.
        if ended.is_set():
            shutil.rmtree(os.path.join(directory, "node") if keep else directory, ignore_errors=True)


def _kill_at_end_of_input(first: int, ended: threading.Event) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    ended.set()
    with contextlib.suppress(ProcessLookupError):
        os.kill(first, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], keep=sys.argv[2] == "keep")
