"""New certificates from a process of their own, so that `cryptography` does not stay in the memory of the operator."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec
from steersman import Key

from mysqlcluster.names import dns_names

__all__ = ["create_certificates"]

_PROGRAM = Path(__file__).with_name("certificates.py")
_TIMEOUT_SECONDS = 30.0


async def create_certificates(key: Key, now: datetime) -> Mapping[str, bytes]:
    """Return new certificates of a cluster; another process creates them unless `cryptography` is loaded here.

    Args:
        key: Namespace and name of the cluster.
        now: The time from which the certificates are valid.

    Raises:
        subprocess.SubprocessError: The process failed.
    """
    if "cryptography" in sys.modules:
        from mysqlcluster.certificates import certificate_data

        return certificate_data(key.name, dns_names(key), now)
    return await asyncio.to_thread(_created, key, now)


def _created(key: Key, now: datetime) -> Mapping[str, bytes]:
    done = subprocess.run(
        [sys.executable, "-P", str(_PROGRAM)],
        input=msgspec.json.encode((key.name, dns_names(key), now)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_TIMEOUT_SECONDS,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=dict[str, bytes])
