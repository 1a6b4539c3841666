"""The syntax of the names that an operator declares."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["FINALIZER_NAME", "OPERATOR_NAME"]

OPERATOR_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label."""
FINALIZER_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
"""A qualified name: `domain/name`."""
