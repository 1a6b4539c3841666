"""A status on the wire: the patch that writes it, and where it stands in an object that comes back."""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from steersman.models.patches import MergePatch

__all__ = ["StatusPatch", "raw_status_of"]


class StatusPatch(msgspec.Struct, frozen=True, gc=False):
    """A merge patch of `/status`, encoded once."""

    _body: bytes
    content_type: ClassVar[str] = MergePatch.content_type

    def encode(self) -> bytes:
        """The request's body."""
        return self._body


class _WithStatus(msgspec.Struct, gc=False):
    status: Raw | UnsetType = UNSET


_with_status: Final = msgspec.json.Decoder(_WithStatus).decode


def raw_status_of(body: bytes) -> Raw | UnsetType:
    """The bytes of the status in an object's JSON, as they are there. Raises msgspec's DecodeError for what is none."""
    return _with_status(body).status
