"""Builds a small S3 server for the tests, from its Go module: versitygw, which stores objects in a directory.

    python hack/s3_server.py          prints the path of the program, which is built if it is missing

The Go tool checks the module's checksum. The program is stored in the cache directory of the user.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

MODULE = "github.com/versity/versitygw/cmd/versitygw"
VERSION = "v1.8.0"
BUILD_SECONDS = 900


class S3ServerError(RuntimeError):
    """The program cannot be built on this machine; the message says why."""


def make() -> Path:
    """Return the path of the program, which is built if it is missing.

    Raises:
        S3ServerError: Go is missing, or the module cannot be built.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base) / "steersman" / "tools" / f"versitygw-{VERSION}"
    program = directory / "versitygw"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            if shutil.which("go") is None:
                raise S3ServerError("Go is needed to build versitygw: install it, for example with apt")
            environment = {**os.environ, "GOBIN": str(directory)}
            command = ["go", "install", f"{MODULE}@{VERSION}"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS)
            if done.returncode:
                raise S3ServerError(f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}")
    return program


def main() -> None:
    """Print the path of the program."""
    try:
        print(make())
    except S3ServerError as problem:
        sys.exit(f"s3_server: {problem}")


if __name__ == "__main__":
    main()
