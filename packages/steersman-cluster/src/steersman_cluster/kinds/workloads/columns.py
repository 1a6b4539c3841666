"""Columns and cells of `kubectl get` for the kinds with a Pod template, as in pkg/printers/internalversion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from steersman_cluster.objects import Object, dig
from steersman_cluster.strategy import Column

__all__ = ["CONTAINERS", "IMAGES", "SELECTOR", "container_cells", "count"]

CONTAINERS = Column("Containers", description="Names of each container in the template.", priority=1)
IMAGES = Column("Images", description="Images referenced by each container in the template.", priority=1)
SELECTOR = Column("Selector", description="Which Pods belong to the object.", priority=1)


def count(obj: Object, *path: str) -> int:
    """A number at the end of nested maps; 0 where there is none."""
    return dig(obj, *path, default=0)


def container_cells(containers: Iterable[Object] | None) -> list[Any]:
    """Names and images, each joined by commas."""
    found = list(containers or ())
    return [",".join(item.get("name") or "" for item in found), ",".join(item.get("image") or "" for item in found)]
