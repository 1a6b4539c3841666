"""`Plain`: the strategy of kinds with few rules, and the base class of the kinds that add rules.

Kinds override `errors` (the object), `changes` (immutable fields) and `status_errors`; the order of errors is that of
the API server.
"""

from __future__ import annotations

from typing import Any

from steersman_cluster.errors import FieldError
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.objects import Object, meta
from steersman_cluster.strategy import Column, Strategy, WriteContext

__all__ = ["CREATED_AT", "Plain"]

CREATED_AT = Column("Created At", "date", description=columns.AGE_TEXT)


class Plain(Strategy):
    """The strategy of a kind with the rules of ObjectMeta, and the columns name and creation time."""

    namespaced = True
    qualified_finalizers = True
    """Whether finalizers must be Kubernetes' own or have a domain; custom resources and some groups ask less."""
    revalidated = True
    """Whether a change has its metadata checked as a new object's too, as most kinds do."""
    revalidated_first = False
    """Whether that, and the errors of the object, come before what may not change."""

    columns: tuple[Column, ...] = (columns.NAME, CREATED_AT)

    def row(self, obj: Object, now: float) -> list[Any]:
        """Return the cells of an object, in the order of `columns`."""
        return [columns.name(obj), meta(obj).get("creationTimestamp")]

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        """Return the errors of a new object."""
        return self.errors(obj)

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        """Return the errors of a changed object."""
        again = metadata.repeated_update(obj, old, qualified=self.qualified_finalizers)
        if ctx.subresource:
            return [*again, *self.status_errors(obj, old, ctx)]
        whole = self.errors(obj)
        if self.revalidated:
            whole = (
                metadata.repeated_create(
                    obj, old, self.name_rule, namespaced=self.namespaced, qualified=self.qualified_finalizers
                )
                + whole
            )
        if self.revalidated_first:
            return [*whole, *again, *self.changes(obj, old)]
        return [*again, *self.changes(obj, old), *whole]

    def errors(self, obj: Object) -> list[FieldError]:
        """Return the errors of a new or changed object, except those of its metadata."""
        return []

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        """Return the errors of immutable fields, except those of metadata."""
        return []

    def status_errors(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        """Return the errors of a change of a subresource."""
        return []
