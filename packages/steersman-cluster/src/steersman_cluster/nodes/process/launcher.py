"""Starts one process of a container. The node runs `main` in a Python of its own.

The last two arguments are numbers of inherited file descriptors: the request is read from the first; an error goes to
the second, which closes when the container's program has taken over. The container's environment and command come with
the request, so its `PATH` or `LD_PRELOAD` do not affect the preparation of the container, and its image needs no shell.
The request's fields:

- `command`, `env`, `directory`: the command, its variables and its working directory;
- `terminal`: whether standard input is a terminal that becomes the controlling one;
- `parent`: the node's process id; the process dies with that process;
- `sandbox`: `None`, or the plan of the container's root directory (`kind`, `ops`, `hostname`, `place`, `program`,
  `overlay`: nothing, or the lower, upper, work and merged directories of a writable layer above an image, and
  `sysctls`: values of kernel parameters of the container's namespaces by their paths below /proc/sys);
- `identity`: `None`, or user, group, supplemental groups, capabilities and `no_new_privileges` of the command;
- `enter`: `None`, or a process whose namespaces and root directory the command is to run in;
- `cgroups`: the files through which the command joins its control groups;
- `network`: descriptors of namespaces to enter first: a user namespace where there is one, and a network namespace.

With namespaces there are three processes: a monitor, the first process of the PID namespace, and the container's own.
The monitor's exit code is that of the container; 128 + n after signal n.

The program is a part of each start, and monitors stay as long as their containers. Therefore it imports only modules of
the standard library that import no others: the request is in the format of `marshal`, and signals are numbers.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import marshal
import os
import select
import struct
import sys
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

    Request = dict[str, Any]

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
_CLONE_NEWUSER, _CLONE_NEWPID = 0x10000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _FILTER_BYTES = 22, 2, 8
_MAX_CAPABILITIES = 64
_NS_GET_USERNS = 0xB701
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_START_ERROR = 128
_SIGINT, _SIGKILL, _SIGPIPE, _SIGXFSZ = 2, 9, 13, 25
_SIG_DFL, _SIG_IGN = ctypes.c_void_p(0), ctypes.c_void_p(1)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> None:
    """Call a function of libc; raises `OSError` with the function's name."""
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """Mount a file system with the system call of Linux. Raises `OSError` that names the target."""
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    if _libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source or kind} at {target}: {os.strerror(number)}")


def make_read_only(target: str, *, recursive: bool) -> None:
    """Make a mount read-only, with the mounts below it; on kernels before 5.12 without those."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    where, flags = os.fsencode(target), _AT_RECURSIVE if recursive else 0
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    if _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, where, flags, attributes, size) == 0:
        return
    if ctypes.get_errno() != errno.ENOSYS:
        raise OSError(ctypes.get_errno(), f"make {target} read-only: {os.strerror(ctypes.get_errno())}")
    # Flags that a user namespace has locked must be repeated.
    locked = os.statvfs(target).f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    mount(None, target, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | locked)


def mount_overlay(lower: str, upper: str, work: str, merged: str) -> None:
    """Mount a writable layer above an image's root directory; the image stays as it is."""
    escaped = [path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,") for path in (lower, upper, work)]
    data = f"lowerdir={escaped[0]},upperdir={escaped[1]},workdir={escaped[2]}"
    try:
        mount("overlay", merged, "overlay", 0, data)
    except OSError:
        # In a user namespace the layer needs extended attributes of users (Linux 5.11).
        mount("overlay", merged, "overlay", 0, f"{data},userxattr")


def build(ops: Iterable[tuple[str, str, str]], place: str, hostname: str, overlay: list[str]) -> None:
    """Build the container's root directory at `place` and make it the root directory of this process."""
    mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    name = os.fsencode(hostname)
    _libc.sethostname(name, ctypes.c_size_t(len(name)))
    if overlay:
        # The layer itself is the root directory: entries of the root that were mounts could not be moved or removed.
        merged = overlay[3]
        mount_overlay(*overlay)
        mount(merged, place, None, _MS_BIND)
        ops = [op for op in ops if op[2].count("/") > 1 or op[1] != merged + op[2]]
    else:
        mount("tmpfs", place, "tmpfs", 0, "mode=0755")
    for what, source, target in ops:
        _perform(what, source, place + target)
    os.chroot(place)
    os.chdir("/")


def set_sysctls(values: dict[str, str]) -> None:
    """Set kernel parameters of this process's namespaces. Raises `OSError` that names the parameter."""
    for path, value in values.items():
        try:
            with open(f"/proc/sys/{path}", "w") as file:
                file.write(value)
        except OSError as problem:
            raise OSError(problem.errno, f"write sysctl {path}: {problem.strerror}") from None


def _perform(what: str, source: str, target: str) -> None:
    if what == "symlink":
        if not os.path.lexists(target):
            os.symlink(source, target)
    elif what == "tmpfs":
        mount("tmpfs", target, "tmpfs", 0, "mode=0755")
    elif what == "remount-ro":
        make_read_only(target, recursive=False)
    elif what == "proc":
        os.makedirs(target, exist_ok=True)
        mount("proc", target, "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    elif what == "dev":
        _devices(target)
    else:
        _bind(source, target)
        if what == "ro-bind":
            make_read_only(target, recursive=True)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(source, target, None, _MS_BIND | _MS_REC)


def _devices(target: str) -> None:
    """Create a private /dev with the standard devices of a container, so that the machine's /dev is not written to."""
    os.makedirs(target, exist_ok=True)
    mount("tmpfs", target, "tmpfs", 0, "mode=0755")
    os.mkdir(f"{target}/pts")
    os.mkdir(f"{target}/shm", 0o1777)
    for name in _DEVICES:
        if os.path.exists(f"/dev/{name}"):
            _bind(f"/dev/{name}", f"{target}/{name}")
    try:  # noqa: SIM105 - contextlib takes longer to import than the rest of the launcher
        mount("devpts", f"{target}/pts", "devpts", 0, "newinstance,ptmxmode=0666")
    except OSError:
        pass  # not every user namespace may
    os.symlink("pts/ptmx", f"{target}/ptmx")
    os.symlink("/proc/self/fd", f"{target}/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{target}/{name}")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process with its parent, which is `parent`."""
    _call("prctl", _PR_SET_PDEATHSIG, ctypes.c_ulong(_SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(_START_ERROR)


def fork_bound() -> int:
    """Fork; the child dies with this process, also where their PID namespaces differ. Returns what fork returns."""
    node_pod, holds = os.pipe()
    child = os.fork()
    if child:
        os.close(node_pod)  # `holds` stays open until this process ends.
        return child
    os.close(holds)
    _call("prctl", _PR_SET_PDEATHSIG, ctypes.c_ulong(_SIGKILL), 0, 0, 0)
    if select.select([node_pod], [], [], 0)[0]:  # End of file: the parent had already ended.
        os._exit(_START_ERROR)
    os.close(node_pod)
    return 0


def close_inherited_streams(report: int) -> None:
    """Close the streams and the report, which only the container's process should hold."""
    os.close(report)
    _libc.signal(_SIGINT, _SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)


def code_of(status: int) -> int:
    """Return the exit code of a container from the wait status of its process."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def reap_until(child: int) -> int:
    """Reap every process that ends; return the exit code of `child`."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return code_of(status)


def become(request: Request) -> NoReturn:
    """Replace this program by the command; raises `OSError` with the message of a container runtime."""
    directory, command = request["directory"], request["command"]
    join_cgroups(request["cgroups"])
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    try:
        os.chdir(directory)
    except OSError as problem:
        said = (problem.strerror or str(problem)).lower()
        raise OSError(problem.errno, f'chdir to cwd ("{directory}") failed: {said}') from None
    if request["identity"] is not None:
        take_identity(request["identity"])
    _execute(command, request["env"])


def open_cgroups(request: Request) -> None:
    """Open the files of the control groups before the root directory changes."""
    request["cgroups"] = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in request["cgroups"]]


def join_cgroups(files: list[int]) -> None:
    """Move this process into its control groups."""
    for file in files:
        os.write(file, b"0")
        os.close(file)


def install_filter(program: bytes) -> None:
    """Install the filter of system calls for this process and its children, while it has the privilege."""
    code = ctypes.create_string_buffer(program, len(program))
    length = len(program) // _FILTER_BYTES
    described = struct.pack("HxxxxxxQ", length, ctypes.addressof(code))
    _call("prctl", _PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), described, 0, 0)


def take_identity(identity: dict[str, Any]) -> None:
    """Drop the capabilities that a container does not have, and become its user."""
    for number in (0, 1, 2):  # So that the user can open /dev/stdout, which is a pipe of the node.
        try:  # noqa: SIM105 - as above
            os.fchown(number, identity["user"], -1)
        except OSError:
            pass
    if identity["capabilities"] is not None:
        kept = frozenset(identity["capabilities"])
        for capability in range(_MAX_CAPABILITIES):
            if capability not in kept and _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
                if ctypes.get_errno() == errno.EINVAL:  # The kernel has no further capabilities.
                    break
                raise OSError(ctypes.get_errno(), f"drop capability {capability}")
    if identity["seccomp"]:
        install_filter(bytes.fromhex(identity["seccomp"]))
    os.setgroups(identity["groups"])
    os.setresgid(identity["group"], identity["group"], identity["group"])
    os.setresuid(identity["user"], identity["user"], identity["user"])
    if identity["no_new_privileges"]:
        _call("prctl", _PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0)


def _execute(command: list[str], env: dict[str, str]) -> NoReturn:
    """Find the program as execvp(3) does and run it; imports nothing, because the image is the root directory."""
    word = command[0]
    places = [word] if "/" in word else [os.path.join(place, word) for place in env.get("PATH", os.defpath).split(":")]
    said, number = "executable file not found in $PATH", errno.ENOENT
    for place in places:
        try:
            os.execve(place, command, env)  # noqa: S606 - images need no shell
        except (FileNotFoundError, NotADirectoryError) as problem:
            if place == word:
                said, number = os.strerror(problem.errno or 0).lower(), problem.errno
        except OSError as problem:
            said, number = os.strerror(problem.errno or 0).lower(), problem.errno
            if number != errno.EACCES:
                break
    raise OSError(number, f'exec: "{word}": {said}')


def isolate(request: Request, report: int) -> int:
    """Run the command in namespaces and a root directory of its own; return its exit code."""
    sandbox = request["sandbox"]
    flags = _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWUTS | _CLONE_NEWIPC
    user, group = os.geteuid(), os.getegid()
    _call("unshare", flags | (_CLONE_NEWUSER if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    die_with_parent(request["parent"])  # After the change of user namespace, which clears it.
    init = fork_bound()
    if init:
        close_inherited_streams(report)
        return reap_until(init)
    set_sysctls(sandbox["sysctls"])
    build(sandbox["ops"], sandbox["place"], sandbox["hostname"], sandbox["overlay"])
    child = os.fork()
    if not child:
        if request["terminal"]:
            os.setsid()
        become(request)
    close_inherited_streams(report)
    return reap_until(child)


def with_bubblewrap(request: Request) -> NoReturn:
    """Run the command under bubblewrap; its options are in a file that only this process can read."""
    sandbox = request["sandbox"]
    options = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    options += ["--hostname", sandbox["hostname"]]
    for name, value in request["env"].items():
        options += ["--setenv", name, value]
    for what, source, target in sandbox["ops"]:
        options += [f"--{what}", *([source] if source else []), target]
    options += ["--chdir", request["directory"]]
    file = os.memfd_create("options", 0)
    with open(file, "wb", closefd=False) as writer:
        writer.write(b"".join(os.fsencode(option) + b"\0" for option in options))
    os.lseek(file, 0, os.SEEK_SET)
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    join_cgroups(request["cgroups"])
    _execute([sandbox["program"], "--args", str(file), "--", *request["command"]], dict(os.environ))


def join(request: Request, report: int) -> int:
    """Run the command in the namespaces and the root directory of a process; return its exit code."""
    pid = request["enter"]
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    kinds = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in ("mnt", "pid", "uts", "ipc")]
    if os.geteuid():
        # bubblewrap nests two user namespaces: the outer one owns the others, and the process is in the inner one.
        inner = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
        outer = fcntl.ioctl(kinds[0], _NS_GET_USERNS)
        kinds.insert(0, outer)
        if not os.path.samestat(os.fstat(inner), os.fstat(outer)):
            kinds.append(inner)
    chroot_after = 5 if os.geteuid() else 4
    for number, kind in enumerate(kinds, start=1):
        _call("setns", kind, 0)
        if number == chroot_after:
            os.chdir(root)
            os.chroot(".")
    die_with_parent(request["parent"])  # Again, because the change of user namespace clears it.
    os.close(root)
    for kind in kinds:
        os.close(kind)
    child = fork_bound()
    if not child:
        if request["terminal"]:
            os.setsid()
        become(request)
    close_inherited_streams(report)
    return reap_until(child)


def enter_network(namespaces: list[int]) -> None:
    """Move this process into the namespaces of its Pod's network."""
    for namespace in namespaces:
        _call("setns", namespace, 0)
        os.close(namespace)


def run(request: Request, report: int) -> int:
    """Perform the request; returns the exit code if this process does not become the command."""
    open_cgroups(request)
    enter_network(request["network"])
    sandbox = request["sandbox"]
    if sandbox is not None and sandbox["kind"] == "namespaces":
        return isolate(request, report)
    die_with_parent(request["parent"])
    if request["enter"] is not None:
        return join(request, report)
    if sandbox is not None:
        return with_bubblewrap(request)
    return become(request)


def main() -> None:
    """Read the request and perform it; report an error to the node."""
    request_file, report = int(sys.argv[-2]), int(sys.argv[-1])
    os.set_inheritable(report, False)  # noqa: FBT003 - a positional parameter
    with open(request_file, "rb") as file:
        request = marshal.load(file)  # noqa: S302 - written by the node
    for ignored in (_SIGPIPE, _SIGXFSZ):  # by Python, which the command would inherit
        _libc.signal(ignored, _SIG_DFL)
    try:
        code = run(request, report)
    except Exception as problem:  # noqa: BLE001 - every error is reported to the node
        number, text = errno.EINVAL, str(problem)
        if isinstance(problem, OSError):
            number, text = problem.errno or number, problem.strerror or text
        os.write(report, marshal.dumps((number, text)))
        code = _START_ERROR
    os._exit(code)
