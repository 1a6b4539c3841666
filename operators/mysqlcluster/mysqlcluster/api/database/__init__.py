"""The kinds of `mysqlcluster.api.database`."""

from mysqlcluster.api.database import (
    v1alpha1,
)

__all__ = [
    "v1alpha1",
]
