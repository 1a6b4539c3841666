"""One write during admission: the request, its user, and the results of admission."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steersman_cluster.errors import APIError, forbidden
from steersman_cluster.objects import Object, meta, name_of
from steersman_cluster.strategy import User, WriteContext

__all__ = ["CONNECT", "CREATE", "DELETE", "UPDATE", "Write"]

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


@dataclass(slots=True)
class Write:
    """A write. Plug-ins change `obj` in place; webhooks replace it, so take it from here afterwards."""

    operation: str
    group: str
    version: str
    kind: str
    resource: str
    namespace: str
    name: str
    """As in the path; empty for a create."""
    obj: Object | None
    """The object to be; `None` for a delete. For a CONNECT the options object."""
    old: Object | None
    """The object that is stored; `None` for a create. Never changed."""
    user: User
    context: WriteContext
    subresource: str = ""
    options: Object | None = None
    """The CreateOptions, UpdateOptions (PatchOptions) or DeleteOptions, with kind and apiVersion."""
    dry_run: bool = False
    kind_group: str | None = None
    """The group of `kind`, where it is not the resource's (`token` of serviceaccounts, `eviction` of pods)."""
    kind_version: str | None = None
    normalise: Callable[[Object], None] | None = None
    """Decodes and defaults an object after a webhook's patch, in place. Raises `ValueError` for an invalid one."""
    warnings: list[str] = field(default_factory=list[str])
    """The warnings of webhooks, for `Warning` headers."""
    audit_annotations: dict[str, str] = field(default_factory=dict[str, str])
    """The audit annotations of admission."""

    converted: dict[tuple[str, str, str], tuple[Object | None, Object | None]] = field(
        default_factory=dict[tuple[str, str, str], tuple[Object | None, Object | None]]
    )
    """Object and old object in other versions (group, version, resource); filled when the object is final."""

    def is_on(self, resource: str, group: str = "", subresource: str = "") -> bool:
        """Return whether this is a write of that resource, and of that sub-resource of it (by default of none)."""
        return self.resource == resource and self.group == group and self.subresource == subresource

    def shown_name(self) -> str:
        """Return the name for refusals: of the path, of the object, or its `generateName`."""
        if self.name:
            return self.name
        if self.obj is None:
            return "Unknown"
        return name_of(self.obj) or meta(self.obj).get("generateName") or "Unknown"

    def forbidden(self, why: str, *causes: Mapping[str, Any]) -> APIError:
        """The 403 of an admission plug-in."""
        error = forbidden(self.group, self.resource, self.shown_name(), why)
        if causes and error.details is not None:
            error.details["causes"] = [dict(cause) for cause in causes]
        return error

    @property
    def request_kind(self) -> Object:
        """The kind of the object as the client sent it: group, version and kind."""
        group = self.group if self.kind_group is None else self.kind_group
        version = self.version if self.kind_version is None else self.kind_version
        return {"group": group, "version": version, "kind": self.kind}

    @property
    def effective_namespace(self) -> str:
        """The namespace that selectors and reviews see: a Namespace is in itself."""
        if self.resource == "namespaces" and not self.group:
            return self.name or (name_of(self.obj) if self.obj is not None else "")
        return self.namespace
