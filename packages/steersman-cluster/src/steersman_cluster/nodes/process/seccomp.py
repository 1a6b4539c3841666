"""The seccomp profile RuntimeDefault: a filter that denies system calls to containers without the capability for them.

The filter is a classic BPF program (seccomp(2)). Denied calls fail with EPERM; `clone3` fails with ENOSYS, because its
flags cannot be inspected, and C libraries then use `clone`.

Source: the default profiles of container runtimes; Kubernetes SeccompProfile.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Final

from steersman_cluster.nodes.process.environment import ConfigError
from steersman_cluster.objects import Object, dig

__all__ = ["default_filter", "filter_of"]

_ACTIONS: Final = Path("/proc/sys/kernel/seccomp/actions_avail")
_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The audit architecture by the name of the machine."""
_CAPABILITIES: Final = {
    "DAC_READ_SEARCH": 2, "SYS_MODULE": 16, "SYS_RAWIO": 17, "SYS_PTRACE": 19, "SYS_PACCT": 20, "SYS_ADMIN": 21,
    "SYS_BOOT": 22, "SYS_NICE": 23, "SYS_TIME": 25, "SYS_TTY_CONFIG": 26, "SYSLOG": 34,
}  # fmt: skip
_DENIED: Final[dict[str, dict[str, tuple[int, ...]]]] = {
    # In the order add_key, request_key, keyctl, userfaultfd, nfsservctl, io_uring_setup, _enter, _register, and on
    # x86_64 uselib, ustat, sysfs, _sysctl, create_module, get_kernel_syms, query_module.
    "": {
        "x86_64": (248, 249, 250, 323, 180, 425, 426, 427, 134, 136, 139, 156, 174, 177, 178),
        "aarch64": (217, 218, 219, 282, 42, 425, 426, 427),
    },
    # mount, umount2, pivot_root, setns, unshare, sethostname, setdomainname, quotactl, swapon, swapoff, lookup_dcookie,
    # bpf, perf_event_open, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr.
    "SYS_ADMIN": {
        "x86_64": (
            165, 166, 155, 308, 272, 170, 171, 179, 167, 168, 212, 321, 298, 428, 429, 430, 431, 432, 433, 442,
        ),
        "aarch64": (
            40, 39, 41, 268, 97, 161, 162, 60, 224, 225, 18, 280, 241, 428, 429, 430, 431, 432, 433, 442,
        ),
    },
    # reboot, kexec_load, kexec_file_load
    "SYS_BOOT": {"x86_64": (169, 246, 320), "aarch64": (142, 104, 294)},
    # init_module, finit_module, delete_module
    "SYS_MODULE": {"x86_64": (175, 313, 176), "aarch64": (105, 273, 106)},
    # settimeofday, clock_settime
    "SYS_TIME": {"x86_64": (164, 227), "aarch64": (170, 112)},
    # get_mempolicy, set_mempolicy, mbind, move_pages
    "SYS_NICE": {"x86_64": (239, 238, 237, 279), "aarch64": (236, 237, 235, 239)},
    # kcmp, pidfd_getfd
    "SYS_PTRACE": {"x86_64": (312, 438), "aarch64": (272, 438)},
    # open_by_handle_at
    "DAC_READ_SEARCH": {"x86_64": (304,), "aarch64": (265,)},
    # iopl, ioperm
    "SYS_RAWIO": {"x86_64": (172, 173), "aarch64": ()},
    # acct
    "SYS_PACCT": {"x86_64": (163,), "aarch64": (89,)},
    # vhangup
    "SYS_TTY_CONFIG": {"x86_64": (153,), "aarch64": (58,)},
    # syslog
    "SYSLOG": {"x86_64": (103,), "aarch64": (116,)},
}  # fmt: skip
"""Numbers of the system calls that need a capability, or that are denied to all containers, by machine."""
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_CLONE3: Final = 435
_NAMESPACE_FLAGS: Final = 0x7E02_0000
"""The flags of clone(2) that create namespaces."""
_X32_BIT: Final = 0x4000_0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 4, 16
_ALLOW, _ERROR = 0x7FFF_0000, 0x0005_0000


def filter_of(pod: Object, container: Object, capabilities: Collection[int] | None) -> bytes:
    """Return the filter of a container; empty if it is unconfined or the kernel has no filters.

    Args:
        pod: The Pod.
        container: The container of its spec.
        capabilities: The numbers of the container's capabilities; `None` for a privileged container.

    Raises:
        ConfigError: The profile is of type Localhost.
    """
    own = dig(container, "securityContext", "seccompProfile", default=None)
    profile: Object = own or dig(pod, "spec", "securityContext", "seccompProfile", default={})
    kind = profile.get("type") or "Unconfined"
    if kind == "Localhost":
        name = profile.get("localhostProfile") or ""
        raise ConfigError(f'seccomp profile "{name}" of type Localhost: nodes know RuntimeDefault and Unconfined only')
    if kind != "RuntimeDefault" or capabilities is None or not _ACTIONS.exists():
        return b""
    machine = platform.machine()
    return default_filter(machine, capabilities) if machine in _ARCHITECTURES else b""


def default_filter(machine: str, capabilities: Collection[int]) -> bytes:
    """Return the filter of the profile RuntimeDefault.

    Args:
        machine: `x86_64` or `aarch64`.
        capabilities: The numbers of the container's capabilities.
    """
    admin = _CAPABILITIES["SYS_ADMIN"] in capabilities
    denied = [
        number
        for name, numbers in _DENIED.items()
        if not name or _CAPABILITIES[name] not in capabilities
        for number in numbers[machine]
    ]
    checks: list[tuple[int, int, str]] = [(_EQUAL, number, "deny") for number in sorted(denied)]
    if machine == "x86_64":
        checks.insert(0, (_AT_LEAST, _X32_BIT, "deny"))
    if not admin:
        checks.append((_EQUAL, _CLONE3, "unknown"))
    end: list[tuple[int, int, int, int]] = []
    if not admin:
        # Other calls skip the check of clone's flags.
        end += [
            (_EQUAL, 0, 2, _CLONE[machine]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
            (_ANY_BIT, 1, 0, _NAMESPACE_FLAGS),
        ]
    end += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERROR | errno.EPERM), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    places = {"deny": len(end) - 2, "unknown": len(end) - 1}
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        *(
            (code, len(checks) - 1 - index + places[target], 0, value)
            for index, (code, value, target) in enumerate(checks)
        ),
        *end,
    ]
    return b"".join(struct.pack("=HBBI", code, yes, no, value) for code, yes, no, value in program)
