"""The types that the parts of the API server share: resources, writes, and the server as its parts use it.

The parts (reads, writes, deletes, subresources) import this module and never `server`, which assembles them.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

from steersman_cluster.admission import Admission
from steersman_cluster.api.requests.messages import Request, Response
from steersman_cluster.api.requests.negotiation import Form
from steersman_cluster.api.requests.options import DeleteOptions, ListOptions, WriteOptions
from steersman_cluster.auth import Auth
from steersman_cluster.kubelet import KubeletDirectory
from steersman_cluster.objects import Object, dig
from steersman_cluster.schema import Type
from steersman_cluster.storage import GroupResource, Item, Storage
from steersman_cluster.strategy import Reader, Strategy, User, WriteContext

__all__ = [
    "Call",
    "Change",
    "Deleted",
    "Handler",
    "KubernetesObjects",
    "MetricsReader",
    "ObjectConverter",
    "ObjectDeleter",
    "ObjectReader",
    "ObjectWriter",
    "OpenWatch",
    "Outcome",
    "Registry",
    "Representation",
    "ResourceType",
    "Server",
    "Subresource",
    "Transform",
    "WriteVersions",
]

_Result = TypeVar("_Result")

Handler: TypeAlias = "Callable[[Call], Awaitable[Object | Response]]"
"""Serves a sub-resource or a create-only resource that is not stored."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource. Without a handler it reads and writes the object itself (`status`) or its scale."""

    verbs: frozenset[str] = frozenset(("get", "update", "patch"))
    handler: Handler | None = None
    group: str | None = None
    """Group, version and kind of the body, if it is not the object itself."""
    version: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ResourceType:
    """One resource in one version."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    strategy: Strategy
    type: Type
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict[str, Subresource])
    storage_version: str = ""
    """The version that objects are stored in; this one where empty."""
    storage_name: GroupResource | None = None
    """The resource whose collection contains the objects, if it is another group's (events)."""
    definition: Object | None = None
    """The CustomResourceDefinition behind it."""
    handler: Handler | None = None
    """Serves creates of a resource that is not stored (reviews)."""
    converts: bool = False
    """Whether only a webhook converts its versions: reads and writes ask `conversions` first."""

    @property
    def api_version(self) -> str:
        """The `apiVersion` of the objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_at(self) -> GroupResource:
        """The collection of the storage."""
        return self.storage_name or (self.group, self.plural)

    @property
    def list_kind(self) -> str:
        """The `kind` of list responses; CRDs may define it in `names.listKind`."""
        if self.definition is not None:
            return dig(self.definition, "status", "acceptedNames", "listKind") or f"{self.kind}List"
        return f"{self.kind}List"


@dataclass(slots=True)
class Call:
    """The arguments of a handler: a request for a subresource or a review."""

    server: Server
    request: Request
    user: User
    resource: ResourceType
    verb: str
    namespace: str
    name: str
    subresource: str
    body: Object | None
    options: Mapping[str, str]
    dry_run: bool
    reader: Reader
    context: WriteContext
    rest: str = ""
    warnings: list[str] = field(default_factory=list[str])


class WriteVersions(Protocol):
    """The versions of the object of one write, for fields that managers set in another version."""

    def __call__(self, obj: Object, api_version: str, /) -> tuple[Object, Type] | None:
        """Return an object in a version, and the type there; `None` for a version that is not served."""
        ...

    async def run(self, step: Callable[[], _Result]) -> _Result:
        """Run a step, and repeat it after each conversion that it needs. Raises `APIError` when a webhook fails."""
        ...


Transform = Callable[[Object | None], Object]
"""Makes the new object of the present one (`None` where there is none)."""


class Representation(Protocol):
    """The kind in which a subresource shows its parent to clients and to admission (Scale)."""

    kind: str
    group: str
    version: str

    old: Object
    """The representation of the stored parent, with managed fields."""
    new: Object
    """The requested representation, with managed fields; set by the transformation of the parent."""

    def of(self, parent: Object) -> Object:
        """Return what represents a parent for validation: without managed fields."""
        ...

    def write(self, parent: Object, shown: Object) -> None:
        """Write what admission changed in the representation into the parent."""
        ...

    def normalise(self, shown: Object) -> None:
        """Decode a changed representation again, in place. Raises `ValueError` for an invalid one."""
        ...


@dataclass(slots=True)
class Change:
    """One write and its circumstances."""

    resource: ResourceType
    namespace: str
    name: str
    user: User
    options: WriteOptions
    context: WriteContext
    subresource: str = ""
    warnings: list[str] = field(default_factory=list[str])
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    """The audit annotations of admission."""
    apply: bool = False
    kind: str = "CreateOptions"
    tracked: bool = True
    """Whether managed fields follow; scale brings its own."""
    versions: WriteVersions | None = None
    """The object's versions, for fields that managers own in another one; set by the writer."""
    representation: Representation | None = None
    """The kind in which admission sees the object, where that is not its own."""

    def warn(self, texts: Iterable[str]) -> None:
        """Texts for `Warning` headers; a second attempt does not repeat them."""
        for text in texts:
            if text not in self.warnings:
                self.warnings.append(text)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a write."""

    obj: Object
    created: bool = False
    body: bytes | None = None
    """The JSON of the object, where it is stored as it is served."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a delete: the last state of the object, and whether it is removed or only marked."""

    obj: Object
    gone: bool
    pending: bool = False
    """Whether it was being deleted already and nothing changed."""


class Registry:
    """The served resources. `serial` increases with every change, so that derived documents can be cached."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, str, str], ResourceType] = {}
        self.serial = 0

    def register(self, resource: ResourceType) -> None:
        """Serve a resource from now on; one of the same name is replaced."""
        self._types[resource.group, resource.version, resource.plural] = resource
        self.serial += 1

    def unregister(self, group: str, version: str, plural: str) -> None:
        """Serve it no more."""
        if self._types.pop((group, version, plural), None) is not None:
            self.serial += 1

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The type of a resource in a version."""
        return self._types.get((group, version, plural))

    def of(self, group: str, plural: str) -> list[ResourceType]:
        """A resource in all its versions."""
        return [t for t in self._types.values() if t.group == group and t.plural == plural]

    def stored(self, resource: GroupResource) -> list[ResourceType]:
        """All types that serve one collection of the storage."""
        return [t for t in self._types.values() if t.stored_at == resource]

    def of_kind(self, group: str, version: str, kind: str) -> ResourceType | None:
        """Return the served resource of a group, version and kind, or `None`."""
        for found in self._types.values():
            if (found.group, found.version, found.kind) == (group, version, kind):
                return found
        return None

    def __iter__(self) -> Iterable[ResourceType]:
        return iter(tuple(self._types.values()))

    def all(self) -> tuple[ResourceType, ...]:
        """Return all served resources."""
        return tuple(self._types.values())


class ObjectReader(Protocol):
    """Reads objects and lists in the form that a client requests."""

    def shaped(self, resource: ResourceType, obj: Object, form: Form, include: str = "", status: int = 200) -> Response:
        """Return an object in the requested form: JSON, protobuf, a table, or metadata only."""
        ...

    def listed(
        self, resource: ResourceType, items: list[Item], metadata: Object, form: Form, include: str = ""
    ) -> Response:
        """Return items as a list."""
        ...

    def check_fields(self, resource: ResourceType, options: ListOptions) -> None:
        """Refuse field selectors that the kind does not support. Raises `APIError`."""
        ...

    def selected(self, resource: ResourceType, items: Iterable[Item], options: ListOptions) -> list[Item]:
        """Return the items that the selectors match."""
        ...

    async def prepare(self, resource: ResourceType, namespace: str, name: str = "") -> None:
        """Convert the objects of the next read, if a webhook converts their kind. Raises `APIError`."""
        ...

    def page(self, resource: ResourceType, namespace: str, options: ListOptions) -> tuple[list[Item], Object]:
        """Return the items of a list or page, and the metadata of the list. Raises `APIError`."""
        ...

    def get(self, resource: ResourceType, namespace: str, name: str, form: Form, include: str) -> Response:
        """Return one object. Raises `APIError` (404)."""
        ...

    def list(self, resource: ResourceType, namespace: str, options: ListOptions, form: Form, include: str) -> Response:
        """Return a list or a page. Raises `APIError`."""
        ...

    def watch(self, resource: ResourceType, namespace: str, options: ListOptions, form: Form, include: str) -> Response:
        """Return a stream of events. Raises `APIError`."""
        ...


class ObjectWriter(Protocol):
    """Stores new and changed objects."""

    async def create(self, change: Change, obj: Object) -> Outcome:
        """Store a new object. Raises `APIError`."""
        ...

    async def update(self, change: Change, transform: Transform, *, replace: bool = False) -> Outcome:
        """Change an object; `replace` is set when the client sent a whole object. Raises `APIError`."""
        ...


class ObjectDeleter(Protocol):
    """Deletes objects with finalizers, grace periods and propagation policies."""

    async def delete(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        options: DeleteOptions,
        user: User,
        context: WriteContext,
        *,
        collection: bool = False,
    ) -> Deleted:
        """Delete one object. Raises `APIError`."""
        ...

    def delete_now(
        self, resource: ResourceType, namespace: str, name: str, options: DeleteOptions, context: WriteContext
    ) -> Deleted:
        """Delete one object that admission has allowed. Raises `APIError`."""
        ...


class ObjectConverter(Protocol):
    """Converts objects between the versions of their kind."""

    async def prepare(self, resource: ResourceType, items: Iterable[Item]) -> None:
        """Convert items to the version of `resource`, so that `object_of` finds them. Raises `APIError`."""
        ...

    async def to_storage(self, resource: ResourceType, obj: Object) -> Object:
        """Return an object in its storage version. Raises `APIError`."""
        ...

    async def to_version(self, resource: ResourceType, obj: Object) -> Object:
        """Return an object in the version of `resource`. Raises `APIError`."""
        ...


class MetricsReader(Protocol):
    """The API metrics.k8s.io."""

    def serves(self, resource: ResourceType) -> bool:
        """Return whether a resource belongs to the API."""
        ...

    def read(
        self, resource: ResourceType, namespace: str, name: str, options: ListOptions, form: Form, include: str
    ) -> Response:
        """Return the metrics of one object, or a list if `name` is empty."""
        ...


class KubernetesObjects(Protocol):
    """The Service `kubernetes` and its endpoints."""

    def store(self) -> None:
        """Create the Service and its endpoints if they are missing."""
        ...


class OpenWatch(Protocol):
    """A watch that a client reads."""

    @property
    def stored_at(self) -> GroupResource:
        """The resource of the watched collection."""
        ...

    def end(self) -> None:
        """Close the stream; the client gets the end of the response."""
        ...


class AggregatedResources(Protocol):
    """The resources that aggregated API servers serve."""

    serial: int

    def groups(self) -> list[str]:
        """Return the groups."""
        ...

    def versions(self, group: str) -> list[str]:
        """Return the versions of a group."""
        ...

    def documents(self) -> Mapping[tuple[str, str], bytes]:
        """Return the OpenAPI documents of available servers by group and version."""
        ...

    def resources(self, group: str, version: str) -> list[Object]:
        """Return the entries of a version in an `APIResourceList`."""
        ...


class Server(Protocol):
    """The API server as its parts use it."""

    @property
    def aggregation(self) -> AggregatedResources:
        """The aggregated API servers."""
        ...

    @property
    def address(self) -> str:
        """The base URL for clients, such as `https://127.0.0.1:6443`."""
        ...

    @property
    def key_set_address(self) -> str:
        """The URL at which verifiers of tokens fetch the keys; empty for `address`."""
        ...

    @property
    def admission(self) -> Admission:
        """The admission plug-ins and webhooks of writes, in order."""
        ...

    @property
    def auth(self) -> Auth:
        """Authentication and authorization."""
        ...

    @property
    def conversions(self) -> ObjectConverter:
        """Converts objects between versions, with webhooks where a CRD has them."""
        ...

    @property
    def deleter(self) -> ObjectDeleter:
        """Deletes of objects."""
        ...

    @property
    def kubelets(self) -> KubeletDirectory:
        """Finds the kubelet of a node, for logs, exec and port-forward."""
        ...

    @property
    def kubernetes(self) -> KubernetesObjects:
        """The Service `kubernetes` in `default`, which leads to this server."""
        ...

    @property
    def metrics(self) -> MetricsReader:
        """The API metrics.k8s.io."""
        ...

    @property
    def now(self) -> Callable[[], float]:
        """Returns the time in seconds since the epoch."""
        ...

    @property
    def random(self) -> random.Random:
        """The source of names, uids and durations."""
        ...

    @property
    def reader(self) -> Reader:
        """Reads of stored objects."""
        ...

    @property
    def reads(self) -> ObjectReader:
        """Responses of gets, lists and tables."""
        ...

    @property
    def registry(self) -> Registry:
        """The served resources."""
        ...

    @property
    def storage(self) -> Storage:
        """The store of all objects, with revisions."""
        ...

    @property
    def watches(self) -> set[OpenWatch]:
        """The watch requests that are in progress, to end them at a shutdown."""
        ...

    @property
    def writer(self) -> ObjectWriter:
        """Creates and updates of objects."""
        ...

    def context(self, user: User, *, subresource: str = "", dry_run: bool = False) -> WriteContext:
        """Return the circumstances of a write at the present time."""
        ...

    def new_uid(self) -> str:
        """Return a new uid (RFC 9562, version 4)."""
        ...

    def normalise(self, resource: ResourceType, obj: Object) -> None:
        """Decode and default an object of a webhook, in place. Raises `ValueError` for an invalid object."""
        ...

    def finished(self, resource: ResourceType, obj: Object, old: Object) -> bool:
        """Return whether a terminating object has no finalizers left after a write."""
        ...

    def holds(self, resource: ResourceType, obj: Object) -> bool:
        """Return whether the finalizers of the kind itself hold an object (`spec.finalizers` of a Namespace)."""
        ...

    def ending(self, resource: ResourceType, obj: Object, context: WriteContext) -> None:
        """Set the fields that mark an object of some kinds as terminating."""
        ...
