"""Makes root file systems of database servers from Debian packages, without installing anything.

    python hack/servers.py mariadb-10.11          prints the directory, which is created if it is missing

apt downloads the packages and checks their signatures; they are unpacked in the cache directory of the user. The
directory's name contains a hash of the packages' names and versions, so that other versions get another directory.
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

MARIADB = ("mariadb-server", "mariadb-server-core", "mariadb-client-core", "mariadb-client", "mariadb-backup")
MYSQL = ("mysql-server-core", "mysql-client-core")
SERVERS = {"mariadb-10.11": MARIADB, "mariadb-11.8": MARIADB, "mysql-9.7": MYSQL}
"""The Debian packages of each server; apt adds their dependencies that are not installed on this machine."""
SUITES = {"mariadb-11.8": "trixie", "mysql-9.7": "sid"}
"""Servers of another Debian release than this machine's. Their directories contain all libraries, including the C
library."""
UNDATED = ("sid",)
"""Releases for which expired package lists are used; apt still checks their signatures."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LOADER = "usr/lib64/ld-linux-x86-64.so.2"
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib")

APT_SECONDS = 300


class ServerFilesError(RuntimeError):
    """The files of a server are not available on this machine; the message says why."""


def cache() -> Path:
    """Return the directory of all servers.

    Pods of process nodes run as another user, which cannot read the home directory of root.
    """
    base = os.environ.get("XDG_CACHE_HOME") or ("/var/cache" if os.geteuid() == 0 else Path.home() / ".cache")
    return Path(base) / "steersman" / "servers"


def find(server: str) -> Path | None:
    """Return the newest existing directory of a server; `None` if there is none."""
    made = sorted(cache().glob(f"{server}-*/.complete"), key=lambda mark: mark.stat().st_mtime)
    return made[-1].parent if made else None


def make(server: str) -> Path:
    """Return the directory of a server, which is created if it is missing.

    Raises:
        ServerFilesError: apt is missing, or it does not have the packages.
    """
    if server not in SERVERS:
        raise ServerFilesError(f"unknown server {server!r}: use one of {', '.join(SERVERS)}")
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ServerFilesError("apt-get and dpkg-deb are needed, as on Debian and Ubuntu")
    cache().mkdir(parents=True, exist_ok=True)
    suite = SUITES.get(server, "")
    environment = _suite(suite) if suite else dict(os.environ)
    files = _packages(SERVERS[server], environment)
    digest = hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest()[:12]
    root = cache() / f"{server}-{digest}"
    with open(cache() / f"{server}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / ".complete").exists():
            _unpack(files, root, environment)
            if suite:
                _use_own_libraries(root)
            (root / ".complete").touch()
    return root


def _suite(name: str) -> dict[str, str]:
    """Return the environment that limits apt to one Debian release; apt checks the signatures."""
    if not KEYRING.exists():
        raise ServerFilesError(f"{KEYRING} is missing: install debian-archive-keyring")
    state = cache() / f"apt-{name}"
    for directory in ("lists/partial", "archives/partial"):
        (state / directory).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_mirror()} {name} main\n")
    options = {
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "APT::Sandbox::User": "root",
        **({"Acquire::Check-Valid-Until": "false"} if name in UNDATED else {}),
    }
    (state / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in options.items()))
    environment = {**os.environ, "APT_CONFIG": str(state / "apt.conf")}
    if not any((state / "lists").glob("*_Packages*")):
        _run(["apt-get", "update"], state, environment)
    return environment


def _mirror() -> str:
    """Return the URI of the mirror that this machine's apt uses."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=APT_SECONDS)
    found = [uri for uri in done.stdout.split() if "security" not in uri]
    if done.returncode or not found:
        raise ServerFilesError("apt on this machine has no mirror: see sources.list(5)")
    return found[0]


def _use_own_libraries(root: Path) -> None:
    """Make each program of another release start with the loader of its own C library."""
    paths = ":".join(str(root / path) for path in LIBRARIES)
    for directory in ("usr/bin", "usr/sbin"):
        for program in sorted((root / directory).iterdir()):
            if program.is_symlink() or not program.is_file() or program.read_bytes()[:4] != b"\x7fELF":
                continue
            moved = program.with_name(f".{program.name}.elf")
            program.rename(moved)
            program.write_text(
                f'#!/bin/sh\nexec "{root}/{LOADER}" --library-path "{paths}" --argv0 "$0" "{moved}" "$@"\n'
            )
            program.chmod(0o755)


def _packages(names: tuple[str, ...], environment: dict[str, str]) -> list[str]:
    """Return `NAME=VERSION` of the packages and of their dependencies that are not installed on this machine."""
    command = ["apt-get", "install", "--simulate", "--no-install-recommends", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=APT_SECONDS, env=environment)
    found = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", done.stdout, re.MULTILINE)
    if done.returncode or not found:
        detail = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no output"]
        raise ServerFilesError(f"apt-get does not have {', '.join(names)} ({detail[0]}); try: apt-get update")
    return [f"{name}={version}" for name, version in found]


def _unpack(packages: list[str], root: Path, environment: dict[str, str]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    downloads = root / "var/cache/debs"
    downloads.mkdir(parents=True)
    _run(["apt-get", "download", "-o", "APT::Sandbox::User=root", *packages], downloads, environment)
    for package in sorted(downloads.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(root)], root, environment)
    shutil.rmtree(downloads)


def _run(command: list[str], directory: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=APT_SECONDS, env=environment)
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
