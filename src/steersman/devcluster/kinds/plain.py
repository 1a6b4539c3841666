"""`Plain`: the strategy of kinds that have no rules of their own, and the ground of those that have few."""

from __future__ import annotations

from typing import Any

from steersman.devcluster.kinds import columns
from steersman.devcluster.objects import Object, meta
from steersman.devcluster.strategy import Column, Strategy

__all__ = ["Plain"]


class Plain(Strategy):
    """ObjectMeta's rules, a name and an age."""

    columns: tuple[Column, ...] = (
        columns.NAME,
        Column("Created At", "date", description=columns.AGE_TEXT),
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), meta(obj).get("creationTimestamp")]
