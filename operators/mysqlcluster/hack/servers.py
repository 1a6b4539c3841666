"""Makes root file systems of database servers from Debian packages, without installing anything.

    python hack/servers.py mariadb-10.11          prints the directory, which is made when it is missing

The packages are downloaded by apt, which checks their signatures, and unpacked below the cache directory of the user.
The directory's name holds a hash of the packages' names and versions, so that other versions make another directory.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SERVERS = {
    "mariadb-10.11": (
        "mariadb-server",
        "mariadb-server-core",
        "mariadb-client-core",
        "mariadb-client",
        "mariadb-backup",
    ),
}
"""The Debian packages of each server; apt adds the packages that they need and this machine lacks."""

APT_SECONDS = 300


class ServerFilesError(RuntimeError):
    """The files of a server cannot be had on this machine; the message says why."""


def cache() -> Path:
    """Return the directory of all servers."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "steersman" / "servers"


def find(server: str) -> Path | None:
    """Return a directory that was made before, the newest one; `None` if there is none."""
    made = sorted(cache().glob(f"{server}-*/.complete"), key=lambda mark: mark.stat().st_mtime)
    return made[-1].parent if made else None


def make(server: str) -> Path:
    """Return the directory of a server, made if it is missing.

    Raises:
        ServerFilesError: apt is missing, or it does not have the packages.
    """
    if server not in SERVERS:
        raise ServerFilesError(f"unknown server {server!r}: use one of {', '.join(SERVERS)}")
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ServerFilesError("apt-get and dpkg-deb are needed, as on Debian and Ubuntu")
    files = _packages(SERVERS[server])
    digest = hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest()[:12]
    root = cache() / f"{server}-{digest}"
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / f"{server}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / ".complete").exists():
            _unpack(files, root)
    return root


def _packages(names: tuple[str, ...]) -> list[str]:
    """Return `NAME=VERSION` of the packages and of those that they need and this machine lacks."""
    command = ["apt-get", "install", "--simulate", "--no-install-recommends", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=APT_SECONDS)
    found = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", done.stdout, re.MULTILINE)
    if done.returncode or not found:
        detail = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no output"]
        raise ServerFilesError(f"apt-get does not have {', '.join(names)} ({detail[0]}); try: apt-get update")
    return [f"{name}={version}" for name, version in found]


def _unpack(packages: list[str], root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    downloads = root / "var/cache/debs"
    downloads.mkdir(parents=True)
    _run(["apt-get", "download", "-o", "APT::Sandbox::User=root", *packages], downloads)
    for package in sorted(downloads.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(root)], root)
    shutil.rmtree(downloads)
    (root / ".complete").touch()


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=APT_SECONDS)
    if done.returncode:
        raise ServerFilesError(f"`{' '.join(command[:2])}` failed: {done.stderr.strip()[-500:]}")


def main() -> None:
    """Print the directory of one server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", choices=sorted(SERVERS))
    try:
        print(make(parser.parse_args().server))
    except ServerFilesError as problem:
        sys.exit(f"servers: {problem}")


if __name__ == "__main__":
    main()
