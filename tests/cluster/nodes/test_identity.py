"""Users, groups and capabilities of containers: what security contexts and images say, worked out without processes."""

import struct
from pathlib import Path
from typing import Any

import pytest

from steersman_cluster.nodes.process.environment import ConfigError
from steersman_cluster.nodes.process.identity import Account, account_of, accounts, identity_of
from steersman_cluster.nodes.process.seccomp import default_filter

KNOWN = (Account("root", 0, 0, "/root"), Account("app", 1000, 2000, "/home/app"))
SYS_ADMIN, NET_RAW, CHOWN, CHECKPOINT_RESTORE = 21, 13, 0, 40


def identity(pod: dict[str, Any], container: dict[str, Any]) -> Any:
    body = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"securityContext": pod}}
    return identity_of(body, {"name": "c", "securityContext": container}, KNOWN)


def test_the_container_wins_over_the_pod() -> None:
    found = identity({"runAsUser": 1, "runAsGroup": 2}, {"runAsUser": 3})
    assert (found["user"], found["group"]) == (3, 2)


def test_the_group_comes_from_the_images_accounts() -> None:
    assert identity({}, {"runAsUser": 1000})["group"] == 2000
    assert identity({}, {"runAsUser": 7})["group"] == 0
    assert account_of(7, KNOWN).home == "/"


def test_supplemental_groups_include_the_group_of_volumes() -> None:
    found = identity({"supplementalGroups": [5, 6], "fsGroup": 7}, {"runAsUser": 1000})
    assert found["groups"] == [2000, 5, 6, 7]


@pytest.mark.parametrize(
    ("pod", "container", "said"),
    [
        ({"runAsNonRoot": True}, {}, "container has runAsNonRoot and image will run as root"),
        ({"runAsNonRoot": True, "runAsUser": 0}, {}, "container's runAsUser breaks non-root policy"),
        ({"runAsUser": 5}, {"runAsNonRoot": True, "runAsUser": 0}, "container's runAsUser breaks non-root policy"),
    ],
)
def test_root_is_refused_where_it_is_forbidden(pod: dict[str, Any], container: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        identity(pod, container)


def test_capabilities_are_added_to_and_dropped_from_the_defaults() -> None:
    def kept(**changes: list[str]) -> set[int]:
        return set(identity({}, {"capabilities": changes})["capabilities"])

    assert {NET_RAW, CHOWN} <= kept()
    assert SYS_ADMIN not in kept()
    assert kept(drop=["ALL"]) == set()
    assert kept(drop=["ALL"], add=["CAP_CHOWN"]) == {CHOWN}
    assert kept(add=["SYS_ADMIN"], drop=["NET_RAW"]) == kept() - {NET_RAW} | {SYS_ADMIN}
    assert kept(add=["ALL"]) == set(range(CHECKPOINT_RESTORE + 1))
    assert identity({}, {"privileged": True})["capabilities"] is None


def test_wrong_lines_of_passwd_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_bytes(b"app:x:1000:2000::/home/app:/bin/sh\nbroken\nx:x:a:b::/:\n\xff:x:3:4::/z:\n")
    assert [one.user for one in accounts(tmp_path)] == [1000, 3]
    assert accounts(tmp_path / "nowhere") == ()


def test_a_container_is_unconfined_unless_its_pod_or_itself_asks_for_a_profile() -> None:
    default = {"seccompProfile": {"type": "RuntimeDefault"}}
    assert identity({}, {})["seccomp"] == ""
    assert identity(default, {"seccompProfile": {"type": "Unconfined"}})["seccomp"] == ""
    assert identity(default, {"privileged": True})["seccomp"] == ""
    with pytest.raises(ConfigError, match=r'seccomp profile "audit\.json" of type Localhost'):
        identity(default, {"seccompProfile": {"type": "Localhost", "localhostProfile": "audit.json"}})


def outcome(program: bytes, architecture: int, number: int, first: int = 0) -> int:
    """Run a filter as the kernel does; return its action."""
    data = struct.pack("=IIQQ", number, architecture, 0, first)
    steps = list(struct.iter_unpack("=HBBI", program))
    place, accumulator = 0, 0
    while True:
        code, yes, no, value = steps[place]
        place += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            place += yes if holds else no


ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x50000 | 1, 0x50000 | 38
X86, ARM = 0xC000003E, 0xC00000B7


@pytest.mark.parametrize(
    ("machine", "architecture", "capabilities", "number", "first", "action"),
    [
        ("x86_64", X86, (), 0, 0, ALLOW),  # read
        ("x86_64", X86, (), 165, 0, EPERM),  # mount
        ("x86_64", X86, (SYS_ADMIN,), 165, 0, ALLOW),
        ("x86_64", X86, (SYS_ADMIN,), 250, 0, EPERM),  # keyctl
        ("x86_64", X86, (), 56, 0x11, ALLOW),  # clone with SIGCHLD
        ("x86_64", X86, (), 56, 0x10000011, EPERM),  # clone with CLONE_NEWUSER
        ("x86_64", X86, (SYS_ADMIN,), 56, 0x10000011, ALLOW),
        ("x86_64", X86, (), 435, 0, ENOSYS),  # clone3
        ("x86_64", X86, (SYS_ADMIN,), 435, 0, ALLOW),
        ("x86_64", X86, (), 0x40000000, 0, EPERM),  # x32
        ("x86_64", ARM, (), 0, 0, EPERM),
        ("aarch64", ARM, (), 63, 0, ALLOW),  # read
        ("aarch64", ARM, (), 40, 0, EPERM),  # mount
        ("aarch64", ARM, (), 220, 0x10000011, EPERM),
    ],
)
def test_the_default_profile_denies_what_needs_a_capability_that_is_missing(
    machine: str, architecture: int, capabilities: tuple[int, ...], number: int, first: int, action: int
) -> None:
    assert outcome(default_filter(machine, capabilities), architecture, number, first) == action
