"""The error of image archives and the limits that they are held to."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ImageArchiveError", "Limits"]


class ImageArchiveError(Exception):
    """An archive that cannot be imported, or an image that cannot be removed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may contain."""

    unpacked_bytes: int = 64 << 30
    """Of all layers of an image."""
    entries: int = 2_000_000
    """Of all layers of an image."""
    layers: int = 256
    members: int = 20_000
    """Files of the archive itself."""
    document_bytes: int = 8 << 20
    """Of one JSON document."""
    header_bytes: int = 1 << 20
    """Of the extended header of one tar entry."""
    depth: int = 200
    """Directories above a file."""
