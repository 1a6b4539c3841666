"""The error of image archives, and their limits."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ImageArchiveError", "Limits"]


class ImageArchiveError(Exception):
    """The archive cannot be imported, or the image cannot be removed; the message names the solution."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an archive."""

    unpacked_bytes: int = 64 << 30
    """The sum over all layers of an image."""
    entries: int = 2_000_000
    """The sum over all layers of an image."""
    layers: int = 256
    members: int = 20_000
    """Files of the archive itself."""
    document_bytes: int = 8 << 20
    """The size of one JSON document."""
    header_bytes: int = 1 << 20
    """The size of the extended header of one tar entry."""
    depth: int = 200
    """The number of directories above a file."""
