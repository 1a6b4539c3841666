"""Files with secrets: always readable by their owner only, and replaced atomically."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["as_file", "write_private"]


def write_private(path: Path, data: bytes) -> Path:
    """Write `data` to a file that only its owner can read; a missing directory is created (0700).

    Raises OSError if the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


@contextmanager
def as_file(data: bytes) -> Generator[str]:
    """Provide `data` as a file for OpenSSL; on Linux in memory, because a Pod may have no writable directory.

    A file in memory also does not remain after the process was killed.
    """
    if sys.platform == "linux":
        number = os.memfd_create("steersman", os.MFD_CLOEXEC)
        with open(number, "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    import tempfile  # imports the compression modules

    with tempfile.TemporaryDirectory(prefix="steersman-") as scratch:  # 0700
        yield str(write_private(Path(scratch) / "both.pem", data))
