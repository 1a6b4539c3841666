"""Versions of servers: comparison by series, and the supported upgrades."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["UPGRADES", "series", "upgrade_refusal"]

_SERIES = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})")
UPGRADES: Mapping[tuple[int, int], tuple[tuple[int, int], ...]] = {
    (10, 11): ((11, 4), (11, 8)),
    (11, 4): ((11, 8),),
}
"""The series that each series may be upgraded to: the long-term releases of MariaDB, in their order."""


def series(version: str) -> tuple[int, int]:
    """Return the series, such as `(11, 8)` of `11.8.9-MariaDB-log`; `(0, 0)` if the text does not begin with one."""
    found = _SERIES.match(version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def upgrade_refusal(current: str, wanted: str) -> str:
    """Return why an upgrade is not supported; empty if it is.

    Args:
        current: The running version; empty before the first start.
        wanted: The version or series of the spec.
    """
    before, after = series(current), series(wanted)
    if not current or before == after:
        return ""
    if after < before:
        return f"{current} cannot be downgraded to {wanted}: restore a backup into a new cluster instead"
    if after in UPGRADES.get(before, ()):
        return ""
    steps = ", ".join(f"{major}.{minor}" for major, minor in UPGRADES.get(before, ()))
    way = f"upgrade to one of {steps} first" if steps else "restore a backup into a new cluster instead"
    return f"an upgrade from {current} to {wanted} is not supported: {way}"
