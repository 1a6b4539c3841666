"""What is watched: which object, and a hash of what it holds.

Two objects with the same data have the same hash, whatever their metadata; nothing else of the data ever leaves this
module. Hashes stand in the status, which more people may read than Secrets: those of Secrets are made to be slow, so
that a short password cannot be found by trying.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from steersman.k8s import ConfigMap, Secret

from configmonitor.api.v1.configmonitor_types import ConfigMonitorSpec

__all__ = ["Source", "content_hash", "source_of"]


class Source(NamedTuple):
    """A ConfigMap or Secret of the monitor's namespace."""

    kind: type[ConfigMap] | type[Secret]
    name: str

    def __str__(self) -> str:
        return f"{self.kind.__name__}/{self.name}"


def source_of(spec: ConfigMonitorSpec) -> Source:
    """What a ConfigMonitor watches; the CRD's rules see to it that it is exactly one object."""
    if spec.secret:
        return Source(Secret, spec.secret)
    return Source(ConfigMap, spec.config_map or spec.configmap or "")


async def content_hash(held: ConfigMap | Secret) -> str:
    """Hash of the data of a ConfigMap or Secret."""
    if isinstance(held, ConfigMap):
        texts = {key: value.encode() for key, value in held.data.items()}
        return f"sha256:{hashlib.sha256(_framed({**texts, **held.binary_data})).hexdigest()}"
    salt = f"{held.metadata.namespace}/{held.metadata.name}".encode()
    data = _framed(held.data)
    digest = await asyncio.to_thread(hashlib.scrypt, data, salt=salt, n=2**14, r=8, p=1, dklen=32)
    return f"scrypt:{digest.hex()}"


def _framed(data: Mapping[str, bytes]) -> bytes:
    """Keys and values in one order and with their lengths, so that no two contents look alike."""
    parts = [part for key in sorted(data) for part in (key.encode(), data[key])]
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
