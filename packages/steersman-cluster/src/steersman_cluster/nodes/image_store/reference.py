"""Names of images: registry, repository, tag and digest.

Source: the reference grammar of the OCI distribution specification, with Docker's defaults for short names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["Reference"]

_DOMAIN: Final = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]+)?")
_PATH: Final = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_MAX_CHARACTERS: Final = 512


@dataclass(frozen=True, slots=True)
class Reference:
    """The full name of an image."""

    repository: str
    """The repository, with the host of the registry."""
    tag: str
    digest: str = ""
    short: bool = False
    """Whether the name was given without a registry's host."""

    @property
    def name(self) -> str:
        """Repository and tag."""
        return f"{self.repository}:{self.tag}"

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Return the reference that a text names. Raises `ValueError`."""
        rest, _, digest = text.partition("@")
        head, slash, tail = rest.rpartition("/")
        path, colon, tag = tail.partition(":")
        path = f"{head}{slash}{path}"
        host, slash, below = path.partition("/")
        short = not (slash and ("." in host or ":" in host or host == "localhost"))
        if short:
            host, below = "docker.io", path
        if host == "docker.io" and "/" not in below:
            below = f"library/{below}"
        good = (
            len(text) <= _MAX_CHARACTERS
            and _DOMAIN.fullmatch(host)
            and _PATH.fullmatch(below)
            and (not colon or _TAG.fullmatch(tag))
            and ("@" not in text or _DIGEST.fullmatch(digest))
        )
        if not good:
            raise ValueError(f"{text[:_MAX_CHARACTERS]!r} is not the name of an image")
        return cls(f"{host}/{below}", tag or "latest", digest, short)

    def candidates(self) -> list[str]:
        """Return the names to search: a short name can also be that of an image that was built on this machine."""
        local = self.repository.removeprefix("docker.io/").removeprefix("library/")
        return [self.name, f"localhost/{local}:{self.tag}"] if self.short else [self.name]
