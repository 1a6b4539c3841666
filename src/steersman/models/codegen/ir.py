"""The intermediate representation of generated modules: classes, fields, and the names that they import."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ClassDef", "FieldDef", "ModuleDef", "Ref", "ResourceDef"]


@dataclass(frozen=True, order=True)
class Ref:
    """A name in a module (full dotted path)."""

    module: str
    name: str


@dataclass
class FieldDef:
    """One field: its Python name, wire name, annotation, default (source text) and description."""

    name: str
    wire: str
    annotation: str
    default: str | None
    doc: str
    struct: Ref | None = None
    """The model that is the type of the field itself (not of an element), if any."""
    wants_instance: bool = False
    """Whether the default should be an empty instance of `struct`, if that needs no arguments."""
    zero: str | None = None
    """The default of a required field in a type that only servers write."""


@dataclass(frozen=True)
class ResourceDef:
    """The class arguments of a kind."""

    group: str
    version: str
    kind: str
    plural: str | None = None
    singular: str | None = None
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    scale: tuple[str, str, str | None] | None = None
    external: bool = False
    """Whether another project installs the CustomResourceDefinition, so that no manifests are generated."""


@dataclass
class ClassDef:
    """One model; `schema` is its name in the source document."""

    ref: Ref
    doc: str
    schema: str = ""
    fields: list[FieldDef] = field(default_factory=list[FieldDef])
    resource: ResourceDef | None = None
    hidden: tuple[str, ...] = ()
    uses: set[Ref] = field(default_factory=set[Ref])


@dataclass
class ModuleDef:
    """One generated module: its dotted path, and its classes and aliases in any order."""

    path: str
    doc: str
    classes: dict[str, ClassDef] = field(default_factory=dict[str, ClassDef])
    reexports: dict[str, Ref] = field(default_factory=dict[str, Ref])
