"""The rules of one kind: defaulting, validation, generations, status isolation, deletion, columns.

The API server calls a `Strategy` at fixed points of a request and does the rest itself: storage, managed fields,
admission, watches. A strategy is pure: it receives objects and a `WriteContext`, and reads other objects only through
`WriteContext.reader`. One instance serves one kind in one version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from steersman_cluster.errors import FieldError
from steersman_cluster.objects import Object, dig, meta

__all__ = ["Column", "Reader", "Strategy", "User", "WriteContext"]


@dataclass(frozen=True, slots=True)
class User:
    """The authenticated user of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


class Reader(Protocol):
    """Synchronous reads of stored objects. The caller owns the returned copies, in the storage version."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """One object, or `None`."""
        ...

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Object]:
        """All objects of a resource, of one namespace or of all."""
        ...


class WriteContext(msgspec.Struct, frozen=True):
    """The circumstances of one write."""

    user: User
    now: str
    """RFC 3339 with seconds, as `creationTimestamp` has it."""
    reader: Reader
    random: Callable[[int], str]
    """`random(n)`: n random characters of Kubernetes' safe alphabet (bcdfghjklmnpqrstvwxz2456789)."""
    subresource: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; `priority` above 0 shows only with `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Strategy:
    """The rules of one kind; the base class has none. Subclasses override methods.

    Order on create: decode and strict field check, `default`, mutating admission, `prepare_create`, ObjectMeta
    checks, `validate_create`, validating admission, store. On update the same with `old`. `obj` is the request's own
    and is changed in place; `old` must not be changed.
    """

    generation = False
    """Whether `metadata.generation` starts at 1 and counts changes of anything but metadata and status."""
    has_status = False
    """Whether there is a /status sub-resource: main writes keep the old status, status writes keep all else."""
    create_on_update = False
    """Whether PUT of a missing object creates it."""
    unconditional_update = True
    """Whether PUT without resourceVersion is taken."""
    graceful = False
    """Whether `grace` can delay deletion, and the response of a delete contains its time (Pods)."""
    name_rule: str = "subdomain"
    """`subdomain`, `label`, `label1035` (services), `path` (RBAC)."""
    qualified_finalizers = False
    """Whether the names of finalizers must have a domain."""
    deprecation: str = ""
    """The text of the `Warning` header of each request; empty for none."""
    status_group: str | None = None
    """The group that errors name; `None` is the group of the resource."""

    def default(self, obj: Object) -> None:
        """Set the defaults of absent fields, as the API server's defaulting functions do."""

    def early_warnings(self, obj: Object) -> Iterable[str]:
        """Return `Warning` headers about fields of a new object that `prepare_create` will change."""
        return ()

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        """Clear fields that a client may not set in a new object, and set those that the server owns."""
        if self.has_status and not ctx.subresource:
            obj.pop("status", None)
        if self.generation:
            meta(obj)["generation"] = 1

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        """Set the fields that the server owns in a changed object, and count the generation."""
        if self.has_status:
            self.isolate_status(obj, old, ctx)
        if self.generation:
            count = dig(old, "metadata", "generation", default=0)
            if self.content(obj) != self.content(old):
                count += 1
            meta(obj)["generation"] = count

    def isolate_status(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        """Restore the old status, or for writes of `/status` everything else."""
        if ctx.subresource == "status":
            for key in list(obj):
                if key not in ("status", "metadata", "apiVersion", "kind"):
                    del obj[key]
            obj.update(
                {key: value for key, value in old.items() if key not in ("status", "metadata", "apiVersion", "kind")}
            )
            return
        if "status" in old:
            obj["status"] = old["status"]
        else:
            obj.pop("status", None)

    def content(self, obj: Object) -> Any:
        """Return the part of an object whose changes increase the generation."""
        return {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        """Return the errors of a new object, except those of its metadata."""
        return []

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        """Return the errors of a change, except those of the metadata; `ctx.subresource` names the subresource."""
        return self.validate_create(obj, ctx)

    def warnings(self, obj: Object, old: Object | None, ctx: WriteContext) -> Sequence[str]:
        """Return `Warning` headers for a new or changed object."""
        return ()

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields for field selectors beyond metadata.name and metadata.namespace."""
        return {}

    selectable: tuple[str, ...] = ()
    """The names that `fields` knows; any other in a field selector is a 400."""

    def grace(self, obj: Object, asked: int | None) -> int:
        """Return the grace period in seconds of a deleted object; 0 deletes at once."""
        return 0

    def to_storage(self, obj: Object) -> Object:
        """Convert to the stored version; the object itself where they are the same."""
        return obj

    def from_storage(self, obj: Object) -> Object:
        """Convert from the stored version."""
        return obj

    columns: tuple[Column, ...] = (
        Column("Name", format="name", description="Name must be unique within a namespace."),
        Column(
            "Age",
            description="CreationTimestamp is a timestamp representing the server time when this object was created.",
        ),
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        """The cells of `columns`; `now` in seconds since the epoch, for ages."""
        raise NotImplementedError
