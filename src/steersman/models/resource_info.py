"""`ResourceInfo`: the facts about a kind for the API server and tools, apart from its schema."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import msgspec

from steersman.models.declaring import ModelDeclarationError
from steersman.models.memo import Memo

__all__ = ["ALL_NAMESPACES", "GVK", "Column", "ResourceInfo", "Scale", "guess_plural"]

ALL_NAMESPACES: Final = "*"
"""For `namespace=` of reads of many objects: all namespaces. No other value means all."""

_is_safe = re.compile(r"[a-zA-Z0-9._-]*", re.ASCII).fullmatch


def _collection_path(where: tuple[str, str, str, str]) -> str:
    group, version, plural, namespace = where
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{quote(namespace, safe='')}/{plural}" if namespace else f"{root}/{plural}"


_collections: Final = Memo(_collection_path, 4096)
"""The path of a collection by group, version, plural and namespace."""

_quoted: Final = Memo[str, str](partial(quote, safe="/"), 256)
"""Subresources as parts of a path."""


class GVK(NamedTuple):
    """Group, version and kind; the core group is `""`."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """The `apiVersion`: group and version."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


class _ArgumentMeta(type(msgspec.Struct)):
    """Adds the caller's file and line to errors of call arguments."""

    if not TYPE_CHECKING:

        def __call__(cls, *args, **kwargs):
            try:
                return super().__call__(*args, **kwargs)
            except TypeError as wrong:
                raise ModelDeclarationError(f"{cls.__name__}: {wrong}") from None


class Scale(msgspec.Struct, frozen=True, metaclass=_ArgumentMeta):
    """The paths of the scale subresource, with Python or JSON names (`spec.size`)."""

    spec: str
    status: str
    selector: str | None = None


class Column(msgspec.Struct, frozen=True, metaclass=_ArgumentMeta):
    """A printer column of `kubectl get`; the default `type` is derived from the model."""

    name: str
    path: str
    type: str | None = None
    priority: int = 0
    description: str = ""
    format: str = ""


class ResourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a kind for the API server and tools, apart from its schema."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    scale: Scale | None = None
    columns: tuple[Column, ...] = ()
    storage: bool = True
    served: bool = True
    deprecated: str | None = None
    external: bool = False
    """Whether another project installs the kind, so that no CRD is generated from its class."""

    @property
    def api_version(self) -> str:
        """The `apiVersion`: group and version."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def gvk(self) -> GVK:
        """Group, version and kind."""
        return GVK(self.group, self.version, self.kind)

    @property
    def crd_name(self) -> str:
        """`plural.group`, the name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the percent-encoded URL path of the collection, an object or a subresource."""
        path = _collections[self.group, self.version, self.plural, (namespace or "") if self.namespaced else ""]
        if name is None:
            return f"{path}/{_quoted[subresource]}" if subresource else path
        # Nearly all names are DNS names, of which every character stands for itself.
        if not _is_safe(name):
            name = quote(name, safe="")
        if not subresource:
            return f"{path}/{name}"
        return f"{path}/{name}/{_quoted[subresource]}"

    def object_namespace(self, namespace: str | None, default: str) -> str:
        """Return the namespace of one object; `""` for cluster-scoped kinds.

        Args:
            namespace: The namespace that the caller names; `None` means `default`.
            default: The namespace for callers that name none; `""` where there is no default.

        Raises:
            ValueError: There is no namespace, or it is `ALL_NAMESPACES`.
        """
        if not self.namespaced:
            return ""
        found = default if namespace is None else namespace
        if not found or found == ALL_NAMESPACES:
            raise ValueError(f"{self.kind} is namespaced and namespace={namespace!r} names no namespace: pass one")
        return found

    def list_namespace(self, namespace: str | None, default: str) -> str:
        """Return the namespace of a read of many objects, as `object_namespace` does; `""` for `ALL_NAMESPACES`.

        Raises:
            ValueError: There is no namespace. Only `ALL_NAMESPACES` means all.
        """
        if namespace == ALL_NAMESPACES or not self.namespaced:
            return ""
        found = default if namespace is None else namespace
        if not found:
            raise ValueError(
                f"{self.kind} is namespaced and namespace={namespace!r} names no namespace: pass one, or ALL_NAMESPACES"
            )
        return found

    def __str__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}" if self.group else f"{self.plural}.{self.version}"


def guess_plural(kind: str) -> str:
    """Return the plural that Kubernetes' tools guess: lower case, with English endings."""
    lower = kind.lower()
    if lower.endswith("endpoints"):
        return lower
    if lower.endswith(("s", "x", "z", "ch", "sh")):
        return f"{lower}es"
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return f"{lower[:-1]}ies"
    return f"{lower}s"
