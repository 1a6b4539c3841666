"""The programs of a real node, and the reasons why this machine cannot run one.

kubelet, kube-proxy, CoreDNS and pause come from the control plane build (`hack/controlplane/build.sh --node`); the
container runtime and the tools of the network come from packages of the distribution. Only `install_packages` installs
them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steersman.testing.controlplane.binaries import Binaries, BinariesNotFoundError, find_binaries

__all__ = ["BUILT", "PACKAGES", "SEARCH_PATH", "Unavailable", "install_packages", "missing_packages", "unavailable"]

SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CNI_DIRECTORY: Final = Path("/usr/lib/cni")

BUILT: Final = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns", "pause")
"""The binaries of the control plane build that a node needs, in addition to those of every control plane."""

PACKAGES: Final[Mapping[str, Sequence[str]]] = {
    "containerd": ("containerd", "containerd-shim-runc-v2", "ctr"),
    "runc": ("runc",),
    "containernetworking-plugins": (str(CNI_DIRECTORY / "ptp"), str(CNI_DIRECTORY / "portmap")),
    "iptables": ("iptables-restore",),
    "conntrack": ("conntrack",),
    "iproute2": ("ip",),
    "util-linux": ("nsenter", "mount"),
}
"""The Debian packages of a node, with the programs that the node uses from each."""


class Unavailable(RuntimeError):  # noqa: N818 - a state of the machine, shown as the reason of a skip
    """This machine cannot run a real node; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of a node."""

    binaries: Binaries

    def built(self, name: str) -> Path:
        """Return a binary of the control plane build. Raises `BinariesNotFoundError`."""
        if (path := self.binaries.find(name)) is None:
            raise BinariesNotFoundError(
                f"A real node needs {name}, which {self.binaries.directory} ({self.binaries.origin}) lacks. Build it "
                "with `hack/controlplane/build.sh --node` (needs Go, takes minutes, once)."
            )
        return path


def missing_packages() -> tuple[str, ...]:
    """Return the Debian packages whose programs are not installed on this machine."""
    return tuple(
        package
        for package, programs in PACKAGES.items()
        if any(shutil.which(program, path=SEARCH_PATH) is None for program in programs)
    )


def unavailable(env: Mapping[str, str] = os.environ) -> str | None:
    """Return None if a real node can be started here, else the reason and the solution."""
    if sys.platform != "linux":
        return f"a real node needs Linux, not {sys.platform}"
    if os.geteuid() != 0:
        return "a real node needs root, because it creates namespaces and control groups"
    if missing := missing_packages():
        return (
            f"a real node needs the packages {', '.join(missing)}: apt-get install --no-install-recommends "
            f"{' '.join(missing)}"
        )
    try:
        programs = Programs(find_binaries(env))
        for name in BUILT:
            programs.built(name)
    except BinariesNotFoundError as error:
        return str(error)
    return None


def install_packages(packages: Sequence[str]) -> None:
    """Install Debian packages with apt-get. Raises `Unavailable` with the end of its output."""
    if shutil.which("apt-get") is None:
        raise Unavailable(f"apt-get is not available here: install {', '.join(packages)} with this system's packages")
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(  # noqa: S603 - no shell, and the names are those of PACKAGES
            command,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Unavailable(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr.strip()[-2000:]}")
