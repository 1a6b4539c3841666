"""The user, groups and capabilities of a container, from its security context and its image's accounts.

Source: Kubernetes PodSecurityContext and SecurityContext; the default capabilities are those of containerd.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steersman_cluster.nodes.process.command import Identity
from steersman_cluster.nodes.process.environment import ConfigError
from steersman_cluster.nodes.process.sandbox import real
from steersman_cluster.nodes.process.seccomp import filter_of
from steersman_cluster.objects import Object, dig, name_of, namespace_of, uid_of

__all__ = ["Account", "Group", "account_of", "accounts", "groups_of", "identity_of"]

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


@dataclass(frozen=True, slots=True)
class Group:
    """A line of /etc/group."""

    name: str
    group: int
    members: tuple[str, ...]


def accounts(root: Path) -> tuple[Account, ...]:
    """Return the accounts of an image's /etc/passwd; none if it has no such file. Invalid lines are skipped."""
    return tuple(
        Account(fields[0], int(fields[2]), int(fields[3]), fields[5])
        for fields in _records(root, "etc/passwd")
        if len(fields) >= 6 and fields[2].isdecimal() and fields[3].isdecimal()
    )


def groups_of(root: Path) -> tuple[Group, ...]:
    """Return the groups of an image's /etc/group; none if it has no such file. Invalid lines are skipped."""
    return tuple(
        Group(fields[0], int(fields[2]), tuple(filter(None, fields[3].split(","))))
        for fields in _records(root, "etc/group")
        if len(fields) >= 4 and fields[2].isdecimal()
    )


def _records(root: Path, name: str) -> list[list[str]]:
    try:
        with (root / real(root, f"/{name}").lstrip("/")).open("rb") as file:
            text = file.read(_MAX_PASSWD_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line.split(":") for line in text.splitlines()]


def account_of(user: int, known: tuple[Account, ...]) -> Account:
    """Return the account of a user; for an unknown user, an account of group 0 with the home `/`."""
    return next((one for one in known if one.user == user), Account("", user, 0, "/"))


def _image_user(user: str, known: tuple[Account, ...], groups: tuple[Group, ...]) -> tuple[int, int | None]:
    """Return the uid and gid of an image's user; no gid if the account sets it. Raises `ConfigError`."""
    name, _, group = user.partition(":")
    accounts_by_name = {one.name: one for one in reversed(known)}
    groups_by_name = {one.name: one.group for one in reversed(groups)}
    if name.isdecimal():
        number = int(name)
    elif not name:
        number = 0
    elif name in accounts_by_name:
        number = accounts_by_name[name].user
    else:
        raise ConfigError(f"the image's user {name} is not in its /etc/passwd: set securityContext.runAsUser")
    if not group:
        return number, None
    if group.isdecimal():
        return number, int(group)
    if group not in groups_by_name:
        raise ConfigError(f"the image's group {group} is not in its /etc/group: set securityContext.runAsGroup")
    return number, groups_by_name[group]


def identity_of(
    pod: Object,
    container: Object,
    known: tuple[Account, ...],
    groups: tuple[Group, ...] = (),
    image_user: str = "",
) -> Identity:
    """Return the user, groups and capabilities of a container's processes.

    Args:
        pod: The Pod.
        container: The container of its spec.
        known: The accounts of the image.
        groups: The groups of the image.
        image_user: The user of the image's configuration, for a container without `runAsUser`.

    Raises:
        ConfigError: The seccomp profile is unknown, the user is root although `runAsNonRoot` is set, or the user of
            the image does not exist in the image.
    """
    shared: Object = dig(pod, "spec", "securityContext", default={})
    own: Object = container.get("securityContext") or {}

    def setting(name: str) -> int | None:
        return own.get(name) if own.get(name) is not None else shared.get(name)

    of_image, group_of_image = _image_user(image_user, known, groups) if setting("runAsUser") is None else (0, None)
    user = of_image if setting("runAsUser") is None else setting("runAsUser") or 0
    name = image_user.partition(":")[0]
    if setting("runAsNonRoot") and setting("runAsUser") is None and name and not name.isdecimal():
        raise ConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root "
            f'(pod: "{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})", container: {container["name"]})'
        )
    if setting("runAsNonRoot") and not user:
        where = f'(pod: "{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})", container: {container["name"]})'
        if setting("runAsUser") is None:
            raise ConfigError(f"container has runAsNonRoot and image will run as root {where}")
        raise ConfigError(f"container's runAsUser breaks non-root policy {where}")
    asked = setting("runAsGroup")
    group = asked if asked is not None else group_of_image
    account = account_of(user, known)
    group = account.group if group is None else group
    every = [*(shared.get("supplementalGroups") or ())]
    if shared.get("supplementalGroupsPolicy") != "Strict" and account.name:
        every += [one.group for one in groups if account.name in one.members]
    if (fs_group := shared.get("fsGroup")) is not None:
        every.append(fs_group)
    capabilities = _capabilities(own)
    return {
        "user": user,
        "group": group,
        "groups": list(dict.fromkeys([group, *every])),
        "capabilities": capabilities,
        "no_new_privileges": own.get("allowPrivilegeEscalation") is False,
        "seccomp": filter_of(pod, container, capabilities).hex(),
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
