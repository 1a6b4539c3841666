"""The user, groups and capabilities of a container, from its security context and its image's accounts.

Source: Kubernetes PodSecurityContext and SecurityContext; the default capabilities are those of containerd.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steersman_cluster.nodes.process.command import Identity
from steersman_cluster.nodes.process.environment import ConfigError
from steersman_cluster.objects import Object, dig, name_of, namespace_of, uid_of

__all__ = ["Account", "account_of", "accounts", "identity_of"]

_NAMES: Final = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
"""The names of capabilities by number (capabilities(7))."""
_DEFAULT: Final = frozenset(
    (
        "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
        "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
    )
)  # fmt: skip
_MAX_PASSWD_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Account:
    """A line of /etc/passwd."""

    name: str
    user: int
    group: int
    home: str


def accounts(root: Path) -> tuple[Account, ...]:
    """Return the accounts of an image's /etc/passwd; none where it has none. Lines that are wrong are skipped."""
    try:
        with (root / "etc/passwd").open("rb") as file:
            text = file.read(_MAX_PASSWD_BYTES).decode(errors="replace")
    except OSError:
        return ()
    found: list[Account] = []
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and fields[2].isdecimal() and fields[3].isdecimal():
            found.append(Account(fields[0], int(fields[2]), int(fields[3]), fields[5]))
    return tuple(found)


def account_of(user: int, known: tuple[Account, ...]) -> Account:
    """Return the account of a user; one of group 0 with the home `/` for a user that the image does not know."""
    return next((one for one in known if one.user == user), Account("", user, 0, "/"))


def identity_of(pod: Object, container: Object, known: tuple[Account, ...]) -> Identity:
    """Return who a container's processes are. Raises `ConfigError` for root where `runAsNonRoot` forbids it."""
    shared: Object = dig(pod, "spec", "securityContext", default={})
    own: Object = container.get("securityContext") or {}

    def setting(name: str) -> int | None:
        return own.get(name) if own.get(name) is not None else shared.get(name)

    user = setting("runAsUser") or 0
    if setting("runAsNonRoot") and not user:
        where = f'(pod: "{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})", container: {container["name"]})'
        if setting("runAsUser") is None:
            raise ConfigError(f"container has runAsNonRoot and image will run as root {where}")
        raise ConfigError(f"container's runAsUser breaks non-root policy {where}")
    asked = setting("runAsGroup")
    group = account_of(user, known).group if asked is None else asked
    groups = [*(shared.get("supplementalGroups") or ())]
    if (fs_group := shared.get("fsGroup")) is not None:
        groups.append(fs_group)
    return {
        "user": user,
        "group": group,
        "groups": list(dict.fromkeys([group, *groups])),
        "capabilities": _capabilities(own),
        "no_new_privileges": own.get("allowPrivilegeEscalation") is False,
    }


def _capabilities(own: Object) -> list[int] | None:
    if own.get("privileged"):
        return None
    changes: Object = own.get("capabilities") or {}
    added = frozenset(str(name).removeprefix("CAP_") for name in changes.get("add") or ())
    dropped = frozenset(str(name).removeprefix("CAP_") for name in changes.get("drop") or ())
    first: frozenset[str] = frozenset() if "ALL" in dropped else _DEFAULT - dropped
    kept = frozenset(_NAMES) - dropped if "ALL" in added else first | added
    return [number for number, name in enumerate(_NAMES) if name in kept]
