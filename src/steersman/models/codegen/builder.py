"""Converts schemas to class definitions: the Python type, the default and the markers of each property.

Lists and maps default to empty, because Go omits them or sends null even if they are required; times are optional for
the same reason. Optional scalars and pointers are `None`. A struct that Go embeds by value defaults to an empty
instance. Enumerations stay `str`, so that values of a newer server can be decoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from steersman.models.codegen.ir import ClassDef, FieldDef, ModuleDef, Ref
from steersman.models.codegen.naming import class_name, python_name

__all__ = ["Builder", "CodegenError"]

Schema = Mapping[str, Any]

BASE = "steersman.models.base"
META = "steersman.models.meta"
MARKERS = "steersman.models.markers"
TYPING = "typing"

_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_FORMATS = {"string:date-time": "datetime.datetime", "string:byte": "bytes"}
_ZERO = {"str": '""', "int": "0", "float": "0.0", "bool": "False"}
_INSTANCE = "instance"
_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY_PATTERNS = (
    rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$",
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$",
)
"""The patterns that controller-gen and Steersman write for a quantity."""


class CodegenError(ValueError):
    """A document cannot be converted to models; the message names the schema and the property."""


class Builder:
    """Collects classes from schemas.

    Args:
        schemas: The schemas by name.
        well_known: Existing types by schema name: a dotted path, or a plain annotation such as `Any`.
        homes: The module and class name of every generated schema.
        hidden: Fields whose values are hidden in `repr()`, by schema name.
        shapes: Existing types by the names of their fields, with which nested objects are identified.
    """

    def __init__(
        self,
        schemas: Mapping[str, Schema],
        *,
        well_known: Mapping[str, str],
        homes: Mapping[str, Ref],
        hidden: Mapping[str, tuple[str, ...]] | None = None,
        shapes: Mapping[Ref, frozenset[str]] | None = None,
    ) -> None:
        self.schemas = schemas
        self.well_known = well_known
        self.homes = homes
        self.hidden = hidden or {}
        self.shapes = shapes or {}
        self.modules: dict[str, ModuleDef] = {}
        self._reserved: set[Ref] = set()

    def reserve(self, ref: Ref) -> None:
        """Reserve a name, so that no class of a nested object gets it."""
        self._reserved.add(ref)

    def module(self, path: str, doc: str) -> ModuleDef:
        """Return the module with a path; it is created if it does not exist."""
        return self.modules.setdefault(path, ModuleDef(path, doc))

    def classes(self) -> Iterable[ClassDef]:
        """Yield all classes."""
        for module in self.modules.values():
            yield from module.classes.values()

    def find(self, ref: Ref) -> ClassDef | None:
        """Return the class with a name, or None."""
        module = self.modules.get(ref.module)
        return module.classes.get(ref.name) if module else None

    def define(self, ref: Ref, schema: Schema, *, name: str = "", skip: frozenset[str] = frozenset()) -> ClassDef:
        """Add the class of an object schema, and the classes of its nested objects."""
        cls = ClassDef(ref, str(schema.get("description", "")), name)
        self.modules[ref.module].classes[ref.name] = cls
        required = frozenset(schema.get("required", ()))
        taken: dict[str, str] = {}
        for wire, prop in schema.get("properties", {}).items():
            if wire in skip:
                continue
            made = self._field(cls, wire, prop, required=wire in required and not prop.get("nullable"))
            while made.name in taken:
                made.name += "_"
            taken[made.name] = wire
            cls.fields.append(made)
        cls.hidden = tuple(f.name for f in cls.fields if f.wire in self.hidden.get(name, ()))
        return cls

    def _field(self, cls: ClassDef, wire: str, prop: Schema, *, required: bool) -> FieldDef:
        annotation, struct = self._type(cls, wire, prop)
        default: str | None = None
        zero: str | None = None
        wants_instance = False
        if annotation.startswith("tuple["):
            default = "()"
        elif annotation.startswith("Mapping["):
            default = "EMPTY"
            cls.uses.add(Ref(BASE, "EMPTY"))
        elif annotation == "Any":
            default = "None"
        elif struct is not None and prop.get("default") == {}:
            wants_instance = not required
            zero = _INSTANCE if required else None
        elif required and struct is None and annotation not in ("datetime", "MicroTime"):
            zero = _ZERO.get(annotation)
        elif not required or struct is None:
            annotation, default = f"{annotation} | None", "None"
        if markers := self._markers(cls, prop):
            cls.uses.add(Ref(TYPING, "Annotated"))
            annotation = f"Annotated[{', '.join([annotation, *markers])}]"
        return FieldDef(python_name(wire), wire, annotation, default, _describe(prop), struct, wants_instance, zero)

    def _type(self, cls: ClassDef, wire: str, schema: Schema) -> tuple[str, Ref | None]:
        """Return the annotation of a schema, and its model, if it is one."""
        target = _reference(schema)
        if target is not None:
            return self._named(cls, target)
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            if schema.get("pattern") in _QUANTITY_PATTERNS:
                return self._use(cls, "steersman.models.quantity.Quantity"), None
            return self._use(cls, "steersman.models.intstr.IntOrString"), None
        kind = schema.get("type")
        if kind == "array":
            return f"tuple[{self._item(cls, wire, schema.get('items') or {})}, ...]", None
        if kind == "object" or "properties" in schema:
            return self._object(cls, wire, schema)
        scalar = _SCALARS.get(str(kind), "typing.Any" if kind is None else None)
        if scalar is None:
            raise CodegenError(f"{cls.ref.name}.{wire}: unknown type {kind!r}")
        return self._use(cls, _FORMATS.get(f"{kind}:{schema.get('format')}", scalar)), None

    def _object(self, cls: ClassDef, wire: str, schema: Schema) -> tuple[str, Ref | None]:
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            self._use(cls, "collections.abc.Mapping")
            return f"Mapping[str, {self._item(cls, wire, cast(Schema, values))}]", None
        if not schema.get("properties") or schema.get("x-kubernetes-embedded-resource"):
            return self._use(cls, "typing.Any"), None
        if (known := self._shape(cls.ref.module, schema)) is not None:
            cls.uses.add(known)
            return known.name, None
        nested = Ref(cls.ref.module, self._free(cls.ref.module, class_name(cls.ref.name, wire)))
        self.define(nested, schema)
        cls.uses.add(nested)
        return nested.name, nested

    def _shape(self, module: str, schema: Schema) -> Ref | None:
        """Return the known type that has all these fields, and of whose fields most are here, because types grow."""
        names = frozenset(schema["properties"])
        for ref, fields in self.shapes.items():
            if names <= fields and 4 * len(names) >= 3 * len(fields) and Ref(module, ref.name) not in self._reserved:
                return ref
        return None

    def _item(self, cls: ClassDef, wire: str, schema: Schema) -> str:
        item, _ = self._type(cls, wire, schema)
        return f"{item} | None" if schema.get("nullable") and item != "Any" else item

    def _free(self, module: str, name: str) -> str:
        free, number = name, 2
        while free in self.modules[module].classes or Ref(module, free) in self._reserved:
            free, number = f"{name}{number}", number + 1
        return free

    def _named(self, cls: ClassDef, target: str) -> tuple[str, Ref | None]:
        if (known := self.well_known.get(target)) is not None:
            annotation = self._use(cls, known)
            module, _, name = known.rpartition(".")
            return annotation, Ref(module, name) if module == META else None
        home = self.homes.get(target)
        if home is None:
            raise CodegenError(f"{cls.ref.name}: refers to {target!r}, which no document defines")
        schema = self.schemas.get(target)
        if schema is not None and not schema.get("properties"):
            return self._use(cls, "typing.Any"), None
        cls.uses.add(home)
        return home.name, home

    def _use(self, cls: ClassDef, path: str) -> str:
        """Note the import of `path`; alternatives are joined by ` | `."""
        names: list[str] = []
        for part in path.split(" | "):
            core = part.removeprefix("tuple[").removesuffix(", ...]")
            module, _, name = core.rpartition(".")
            if module:
                cls.uses.add(Ref(module, name))
            elif (home := self.homes.get(core)) is not None:
                cls.uses.add(home)
            names.append(part.replace(core, name or core))
        return " | ".join(names)

    def _markers(self, cls: ClassDef, prop: Schema) -> list[str]:
        markers: list[str] = []
        match prop.get("x-kubernetes-list-type"):
            case "map":
                keys = ", ".join(json.dumps(k) for k in prop.get("x-kubernetes-list-map-keys", ()))
                markers.append(f"ListMap({keys})")
            case "set":
                markers.append("Set")
            case "atomic":
                markers.append("Atomic")
            case _:
                if prop.get("x-kubernetes-map-type") == "atomic":
                    markers.append("Atomic")
        if strategy := prop.get("x-kubernetes-patch-strategy"):
            key = prop.get("x-kubernetes-patch-merge-key")
            arguments = [json.dumps(s) for s in str(strategy).split(",")]
            if key:
                arguments.append(f"key={json.dumps(key)}")
            markers.append(f"PatchStrategy({', '.join(arguments)})")
        for marker in markers:
            cls.uses.add(Ref(MARKERS, marker.partition("(")[0]))
        return markers

    def finish(self) -> None:
        """Set the defaults that depend on other classes."""
        for cls in self._written_by_servers():
            for f in cls.fields:
                if f.default is None and f.zero == _INSTANCE:
                    f.wants_instance = True
                elif f.default is None and f.zero:
                    f.default = f.zero
        for cls in self._written_by_servers():
            for f in cls.fields:
                if f.default is None and f.struct and not self._constructible(f.struct, {}):
                    f.annotation, f.default = f"{f.annotation} | None", "None"
        settled: dict[Ref, bool] = {}
        for cls in self.classes():
            self._constructible(cls.ref, settled)

    def _constructible(self, ref: Ref, settled: dict[Ref, bool]) -> bool:
        """Return whether a class needs no arguments; sets empty instances as defaults of its fields if possible."""
        if ref in settled:
            return settled[ref]
        cls = self.find(ref)
        if cls is None:
            return ref.module == META
        settled[ref] = False
        for f in cls.fields:
            if f.default is None and f.wants_instance and f.struct and self._constructible(f.struct, settled):
                f.default = f"{f.struct.name}()"
        settled[ref] = all(f.default is not None for f in cls.fields)
        return settled[ref]

    def _written_by_servers(self) -> list[ClassDef]:
        """Return the classes that occur only in the status of kinds."""
        from_status: set[Ref] = set()
        elsewhere: set[Ref] = set()
        referred = {use for cls in self.classes() for use in cls.uses}
        for cls in self.classes():
            if cls.resource is None:
                if cls.ref not in referred:
                    self._reach(cls.ref, elsewhere)
                continue
            for f in cls.fields:
                if f.struct:
                    self._reach(f.struct, from_status if f.wire == "status" else elsewhere)
            others = cls.uses - {f.struct for f in cls.fields if f.struct}
            for use in others:
                self._reach(use, elsewhere)
        return [c for c in self.classes() if c.ref in from_status - elsewhere]

    def _reach(self, ref: Ref, seen: set[Ref]) -> None:
        if ref in seen or (cls := self.find(ref)) is None:
            return
        seen.add(ref)
        for use in cls.uses:
            self._reach(use, seen)


def _describe(prop: Schema) -> str:
    doc = str(prop.get("description", ""))
    values = prop.get("enum")
    if values and "Possible enum values" not in doc:
        doc = f"{doc}\n\nOne of {', '.join(json.dumps(v) for v in values)}.".strip()
    return doc


def _reference(schema: Schema) -> str | None:
    pointer = schema.get("$ref")
    if pointer is None:
        parts = schema.get("allOf", ())
        if len(parts) == 1:
            pointer = parts[0].get("$ref")
    return str(pointer).rpartition("/")[2] if pointer else None
