"""The kinds of `mysqlcluster.api.cr`."""

from mysqlcluster.api.cr import (
    v1,
)

__all__ = [
    "v1",
]
