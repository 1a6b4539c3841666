"""`Resource`: a kind of the Kubernetes API as a Python class, and `View`: the three ways to read a kind.

Class arguments have the facts for which Go uses comment markers: group, version, scope, plural, scale, columns. They
are stored as a frozen `ResourceInfo`. A view combines them with a decoder, so that clients and caches read a kind as
typed objects, as dynamic objects or as metadata only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeAlias,
    TypeGuard,
    TypeVar,
    cast,
    dataclass_transform,
)

import msgspec

from steersman.models.base import EMPTY, Model, ModelMeta, fields_of, own_annotations
from steersman.models.declaring import ModelDeclarationError
from steersman.models.meta import ObjectMeta, PartialObjectMetadata
from steersman.models.resource_info import Column, ResourceInfo, Scale, guess_plural
from steersman.models.wire import decode, from_dict

__all__ = [
    "Dynamic",
    "KindLike",
    "Resource",
    "View",
    "dynamic",
    "info_of",
    "is_kind",
    "lookup",
    "metadata_of",
    "view_of",
    "view_of_object",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_SERVED_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
"""A kind that the API server accepts: a DNS label, in upper or lower case."""


def _declaration_error(cls: str, problem: str) -> ModelDeclarationError:
    return ModelDeclarationError(f"class {cls}: {problem}")


def _tuple_of(cls: str, argument: str, value: object) -> tuple[Any, ...]:
    """Return a class argument that is a list. Raises `ModelDeclarationError` for a string or a single value."""
    if isinstance(value, list | tuple):
        return tuple(cast("list[Any]", value))
    raise _declaration_error(cls, f"{argument}={value!r} must be a list or tuple")


def _check_types(cls: str, info: ResourceInfo) -> None:
    try:
        msgspec.convert(msgspec.structs.asdict(info), ResourceInfo)
        for part in (*info.columns, *((info.scale,) if info.scale is not None else ())):
            msgspec.convert(msgspec.structs.asdict(part), type(part))
    except msgspec.ValidationError as wrong:
        problem, _, path = str(wrong).partition(" - at `$.")
        argument = path.rstrip("`")
        raise _declaration_error(cls, f"{argument}: {problem}" if argument else problem) from None


def _check(cls: str, info: ResourceInfo, kind: re.Pattern[str] = _KIND) -> None:
    if info.group and not _DNS_NAME.fullmatch(info.group):
        raise _declaration_error(cls, f"group={info.group!r} must be a lower-case DNS name such as 'apps.example.com'")
    if not _DNS_LABEL.fullmatch(info.version):
        raise _declaration_error(cls, f"version={info.version!r} must be a DNS label such as 'v1' or 'v1alpha1'")
    if not kind.fullmatch(info.kind):
        raise _declaration_error(cls, f"kind={info.kind!r} must be CamelCase and start with a capital letter")
    for what, name in (("plural", info.plural), ("singular", info.singular)):
        if not _DNS_LABEL.fullmatch(name):
            raise _declaration_error(cls, f"{what}={name!r} must be a lower-case DNS label")


_classes: dict[tuple[str, str], type[Resource]] = {}
_FINDER_MODULES = ("steersman.k8s",)
"""Modules that register a finder at import; imported by name on demand, because this package imports no other."""
_finders: list[Callable[[str, str], type[Resource] | None]] = []


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class ResourceMeta(ModelMeta):
    """Reads the class arguments of a `Resource` and registers the class under its apiVersion and kind."""

    def __new__(
        mcls: type[ResourceMeta],
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        group: str = "",
        version: str = "",
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        short_names: tuple[str, ...] = (),
        categories: tuple[str, ...] = (),
        namespaced: bool = True,
        scale: Scale | None = None,
        columns: tuple[Column, ...] = (),
        storage: bool = True,
        served: bool = True,
        deprecated: str | None = None,
        external: bool = False,
        status_subresource: bool | None = None,
        **options: Any,
    ) -> ResourceMeta:
        if not version:
            if group:
                raise _declaration_error(name, "version= is missing, for example version='v1'")
            # msgspec declares that its metaclass creates a `type`.
            return cast(ResourceMeta, super().__new__(mcls, name, bases, namespace, **options))
        kind = kind or name
        info = ResourceInfo(
            group=group,
            version=version,
            kind=kind,
            plural=plural or guess_plural(kind),
            singular=singular or kind.lower(),
            list_kind=f"{kind}List",
            namespaced=namespaced,
            short_names=_tuple_of(name, "short_names", short_names),
            categories=_tuple_of(name, "categories", categories),
            scale=scale,
            columns=_tuple_of(name, "columns", columns),
            storage=storage,
            served=served,
            deprecated=deprecated,
            external=external,
        )
        _check_types(name, info)
        _check(name, info)
        annotations = own_annotations(namespace)
        for attribute in ("__annotate__", "__annotate_func__"):  # they would replace the annotations below
            namespace.pop(attribute, None)
        namespace["__annotations__"] = {
            # The types themselves: names would be looked up in the module of the kind, which need not import them.
            "api_version": str,
            "kind": str,
            "metadata": ObjectMeta,
            **annotations,
        }
        namespace["api_version"] = info.api_version
        namespace["kind"] = kind
        namespace.setdefault("metadata", ObjectMeta())
        cls = cast(ResourceMeta, super().__new__(mcls, name, bases, namespace, **options))
        has_status = "status" in cls.__struct_fields__ if status_subresource is None else status_subresource
        cls.__resource__ = msgspec.structs.replace(info, has_status=has_status)  # type: ignore[attr-defined]
        # Only subclasses of `Resource` have a version.
        _classes[info.api_version, kind] = cast("type[Resource]", cls)
        return cls


class Resource(Model, metaclass=ResourceMeta):
    """A kind of the API: `class HelloApp(Resource, group="apps.example.com", version="v1")`.

    Class arguments: `group`, `version`, `kind` (the class name), `plural`, `singular`, `short_names`, `categories`,
    `namespaced`, `scale=Scale(…)`, `columns=(Column(…), …)`, `storage`, `served`, `deprecated="why"`,
    `external` (another project installs its CRD). A field named `status` gives the kind a status subresource, unless
    `status_subresource=False`. Raises `TypeError` for names that the API server would refuse.
    """

    __resource__: ClassVar[ResourceInfo]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Dynamic:
    """An object of any kind as plain data, with typed metadata; read with `obj["spec"]["size"]` or `body`."""

    __slots__ = ("_metadata", "body")

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self._metadata: ObjectMeta | None = None

    @property
    def api_version(self) -> str:
        """The `apiVersion`."""
        return str(self.body.get("apiVersion", ""))

    @property
    def kind(self) -> str:
        """The kind."""
        return str(self.body.get("kind", ""))

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata. Raises `DecodeError` for invalid metadata."""
        if self._metadata is None:
            self._metadata = from_dict(ObjectMeta, self.body.get("metadata") or EMPTY)
        return self._metadata

    def with_kind(self, api_version: str, kind: str) -> Self:
        """Return a copy with `apiVersion` and `kind`, which the items of lists do not have."""
        return type(self)({"apiVersion": api_version, "kind": kind, **self.body})

    def __getitem__(self, name: str) -> Any:
        return self.body[name]

    def get(self, *path: str, default: Any = None) -> Any:
        """Return the value at a path of JSON names, or `default` if a step is absent."""
        value: Any = self.body
        for step in path:
            if not isinstance(value, Mapping) or step not in value:
                return default
            value = cast("Mapping[str, Any]", value)[step]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.body)

    def __contains__(self, name: object) -> bool:
        return name in self.body

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dynamic) and self.body == other.body

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self.api_version} {self.kind} {self.metadata.namespace}/{self.metadata.name}>"

    def __to_wire__(self) -> Mapping[str, Any]:
        return self.body

    @classmethod
    def __from_wire__(cls, value: Mapping[str, Any]) -> Dynamic:
        return cls(value)


class View(Generic[T_co]):
    """One way to read a kind: its `info`, a `form` and the type to which bytes are decoded."""

    __slots__ = ("form", "info", "type")

    def __init__(self, info: ResourceInfo, kind: type[T_co], form: Literal["typed", "dynamic", "metadata"]) -> None:
        self.info = info
        self.form: Literal["typed", "dynamic", "metadata"] = form
        self.type = kind

    def decode(self, data: bytes | bytearray | memoryview) -> T_co:
        """Decode one object. Raises `DecodeError` with the path of the invalid field."""
        return decode(self.type, data)

    def __eq__(self, other: object) -> bool:
        # The type argument of `other` is not known at run time.
        return isinstance(other, View) and self.info == other.info and self.type is cast("View[Any]", other).type

    def __hash__(self) -> int:
        return hash((self.info.gvk, self.type))

    def __repr__(self) -> str:
        return f"<{self.form} view of {self.info.gvk}>"


KindLike: TypeAlias = type[T] | View[T]
"""A kind as an argument: a `Resource` class or a `View`."""

_views: dict[type[Any], View[Any]] = {}


def info_of(kind: type[Any] | View[Any] | Resource) -> ResourceInfo:
    """Return the `ResourceInfo` of a resource class, an instance or a view. Raises `TypeError` for other values."""
    if isinstance(kind, View):
        return kind.info
    info = getattr(kind, "__resource__", None)
    if info is None:
        raise TypeError(f"{kind!r} is not a kind: pass a Resource class, dynamic(…) or metadata_of(…)")
    return info


def is_kind(value: object) -> TypeGuard[KindLike[Any]]:
    """Return whether `value` names a kind, and is not an object."""
    return isinstance(value, type | View)


def view_of_object(obj: Resource) -> View[Any]:
    """Return the typed view of the class of an object."""
    return view_of(type(obj))


def view_of(kind: KindLike[T]) -> View[T]:
    """Return the typed view of a resource class; a view is returned unchanged."""
    if isinstance(kind, View):
        return kind
    view = _views.get(kind)
    if view is None:
        view = _views[kind] = View(info_of(kind), kind, "typed")
    return view


def metadata_of(kind: type[Any] | View[Any]) -> View[PartialObjectMetadata]:
    """Return the metadata-only view of a kind."""
    return View(info_of(kind), PartialObjectMetadata, "metadata")


def dynamic(api_version: str, kind: str, *, plural: str | None = None, namespaced: bool = True) -> View[Dynamic]:
    """Return a view of a kind for which there is no class.

    Args:
        api_version: `group/version`, or `v1`.
        kind: The kind, as the API server serves it; it may begin with a lower-case letter.
        plural: The name in URLs; guessed as Kubernetes' tools do when left out.
        namespaced: Whether the kind is namespaced.

    Raises:
        TypeError: No API server serves such a name.
    """
    group, _, version = api_version.rpartition("/")
    info = ResourceInfo(
        group=group,
        version=version,
        kind=kind,
        plural=plural or guess_plural(kind),
        singular=kind.lower(),
        list_kind=f"{kind}List",
        namespaced=namespaced,
        has_status=True,
    )
    _check(kind, info, _SERVED_KIND)
    return View(info, Dynamic, "dynamic")


def lookup(api_version: str, kind: str) -> type[Resource] | None:
    """Return the registered class of an apiVersion and kind, or `None`; built-in kinds are imported on demand."""
    found = _classes.get((api_version, kind))
    if found is None:
        for name in _FINDER_MODULES:
            import_module(name)
        for finder in _finders:
            if (found := finder(api_version, kind)) is not None:
                break
    return found


def versions_of(group: str, kind: str) -> tuple[type[Resource], ...]:
    """Return the registered classes of a kind's versions, without importing any."""
    return tuple(cls for cls in _classes.values() if cls.__resource__.group == group and cls.__resource__.kind == kind)


def add_finder(finder: Callable[[str, str], type[Resource] | None]) -> None:
    """Register a function with which `lookup` finds kinds that are not imported yet (`steersman.k8s` does)."""
    if finder not in _finders:
        _finders.append(finder)


def wire_path(cls: type[msgspec.Struct], path: str) -> str:
    """Translate a snake_case field path (`status.ready_replicas`) to JSON names.

    Raises `TypeError` with the step that a model does not have.
    """
    from typing import get_type_hints

    steps: list[str] = []
    current: Any = cls
    for step in path.removeprefix(".").split("."):
        if isinstance(current, type) and issubclass(current, msgspec.Struct):
            for f in fields_of(current):
                if step in (f.name, f.encode_name):
                    steps.append(f.encode_name)
                    current = get_type_hints(current).get(f.name)
                    break
            else:
                raise TypeError(f"{cls.__name__}: path {path!r}: {current.__name__} has no field {step!r}")
        else:
            steps.append(step)
    return ".".join(steps)
