"""The encoded patch of a status, and the bytes of the status in an object's JSON."""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from steersman.models.patches import MergePatch

__all__ = ["StatusPatch", "raw_status_of"]


class StatusPatch(msgspec.Struct, frozen=True, gc=False):
    """An encoded merge patch of `/status`."""

    _body: bytes
    content_type: ClassVar[str] = MergePatch.content_type

    def encode(self) -> bytes:
        """Return the body of the request."""
        return self._body


class _WithStatus(msgspec.Struct, gc=False):
    status: Raw | UnsetType = UNSET


_with_status: Final = msgspec.json.Decoder(_WithStatus).decode


def raw_status_of(body: bytes) -> Raw | UnsetType:
    """Return the bytes of the status in an object's JSON; raises `msgspec.DecodeError` for invalid JSON."""
    return _with_status(body).status
