"""The kinds that this operator defines."""

from mysqlcluster.api import (
    cr,
    database,
)

__all__ = [
    "cr",
    "database",
]
