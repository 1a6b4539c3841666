"""The watched object, and a hash of its data.

Two objects with the same data have the same hash, whatever their metadata. The hash is the only information about the
data that leaves this module. It is in the status, which more users may read than Secrets: hashes of Secrets use a slow
function, so that a short password cannot be found by trying.
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
    """Return the watched object of a ConfigMonitor; the rules of the CRD allow exactly one."""
    if spec.secret:
        return Source(Secret, spec.secret)
    return Source(ConfigMap, spec.config_map or spec.configmap or "")


async def content_hash(held: ConfigMap | Secret) -> str:
    """Return the hash of the data of a ConfigMap or Secret."""
    if isinstance(held, ConfigMap):
        texts = {key: value.encode() for key, value in held.data.items()}
        return f"sha256:{hashlib.sha256(_framed({**texts, **held.binary_data})).hexdigest()}"
    salt = f"{held.metadata.namespace}/{held.metadata.name}".encode()
    data = _framed(held.data)
    digest = await asyncio.to_thread(hashlib.scrypt, data, salt=salt, n=2**14, r=8, p=1, dklen=32)
    return f"scrypt:{digest.hex()}"


def _framed(data: Mapping[str, bytes]) -> bytes:
    """Encode keys and values in a fixed order with their lengths, so that different data has different encodings."""
    parts = [part for key in sorted(data) for part in (key.encode(), data[key])]
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
