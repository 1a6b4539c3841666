"""Changes between two versions of a CustomResourceDefinition, and whether they break stored objects or clients.

A change is breaking if the old version accepts an object or request that the new one refuses, prunes, or interprets
differently. The comparison uses the schemas only, not the stored objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

__all__ = ["Change", "changes_between"]

Schema = Mapping[str, Any]
Severity = Literal["breaking", "note", "compatible"]

_LOWER: Final = ("minimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
_WIDER: Final = {("integer", "number"), ("int32", "int64"), ("float", "double")}
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf", "not")


@dataclass(frozen=True, slots=True)
class Change:
    """One change: `breaking` refuses, loses or changes data; a `note` may be unexpected; others are harmless."""

    severity: Severity
    crd: str
    version: str
    path: str
    text: str

    def __str__(self) -> str:
        where = " ".join(filter(None, (self.crd, self.version, self.path)))
        return f"{where}: {self.text}"


class _Changes:
    """Collects the changes of one CRD, or of one of its versions."""

    def __init__(self, crd: str, version: str = "", found: list[Change] | None = None) -> None:
        self.crd, self.version = crd, version
        self.found: list[Change] = [] if found is None else found

    def of(self, version: str) -> _Changes:
        """Return a collector for a version of the CRD."""
        return _Changes(self.crd, version, self.found)

    def add(self, severity: Severity, path: str, text: str) -> None:
        """Add a change."""
        self.found.append(Change(severity, self.crd, self.version, path, text))


def changes_between(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[Change]:
    """Return all changes between CRDs of the same names, sorted by name and with breaking ones first."""
    before = {str(crd["metadata"]["name"]): crd for crd in old}
    after = {str(crd["metadata"]["name"]): crd for crd in new}
    found: list[Change] = []
    for name in sorted({*before, *after}):
        changes = _Changes(name, found=found)
        if name not in after:
            changes.add("breaking", "", "the CRD was removed; all its objects would be deleted")
        elif name not in before:
            changes.add("compatible", "", "the CRD is new")
        else:
            _definition(before[name]["spec"], after[name]["spec"], _stored(before[name]), changes)
    order = ("breaking", "note", "compatible")
    return sorted(found, key=lambda change: (change.crd, order.index(change.severity)))


def _stored(crd: Mapping[str, Any]) -> list[str]:
    """Return the versions in which objects may be stored."""
    status: Mapping[str, Any] = crd.get("status") or {}
    stored = [str(v["name"]) for v in crd["spec"]["versions"] if v.get("storage")]
    return list(dict.fromkeys([*(status.get("storedVersions") or ()), *stored]))


def _definition(old: Schema, new: Schema, stored: list[str], changes: _Changes) -> None:
    _names(old, new, changes)
    before = {str(v["name"]): v for v in old["versions"]}
    after = {str(v["name"]): v for v in new["versions"]}
    for name in before:
        if name not in after:
            _dropped(before[name], name, stored, changes)
    for name, version in after.items():
        if name not in before:
            changes.add("compatible", f"version {name}", "is new")
        else:
            _version(before[name], version, changes.of(name))
    was, now = (next((n for n, v in side.items() if v.get("storage")), "") for side in (before, after))
    if was != now and was in after:
        changes.add("note", f"version {now}", f"is stored instead of {was}; objects are rewritten when next written")
    if _strategy(old) != _strategy(new):
        changes.add("note", "spec.conversion.strategy", f"was {_strategy(old)}, is {_strategy(new)}")


def _names(old: Schema, new: Schema, changes: _Changes) -> None:
    for key in ("group", "scope"):
        if old.get(key) != new.get(key):
            changes.add("breaking", f"spec.{key}", f"was {old.get(key)!r}, is {new.get(key)!r}")
    names, theirs = cast(Schema, old.get("names") or {}), cast(Schema, new.get("names") or {})
    for key in ("kind", "plural"):
        if names.get(key) != theirs.get(key):
            changes.add("breaking", f"spec.names.{key}", f"was {names.get(key)!r}, is {theirs.get(key)!r}")
    for key in ("shortNames", "categories"):
        for gone in sorted({*(names.get(key) or ())} - {*(theirs.get(key) or ())}):
            changes.add("note", f"spec.names.{key}", f"{gone!r} was removed; commands that use it fail")


def _strategy(spec: Schema) -> str:
    conversion: Schema = spec.get("conversion") or {}
    return str(conversion.get("strategy") or "None")


def _dropped(version: Schema, name: str, stored: list[str], changes: _Changes) -> None:
    if name in stored:
        changes.add(
            "breaking",
            f"version {name}",
            "was removed, but objects are stored in it: store another version first, rewrite all objects, and remove it"
            " from status.storedVersions",
        )
    elif version.get("served", True):
        changes.add(
            "breaking", f"version {name}", "was removed; clients that use it fail: deprecate it, then stop serving"
        )
    else:
        changes.add("compatible", f"version {name}", "was removed; it was not served and no object is stored in it")


def _version(old: Schema, new: Schema, changes: _Changes) -> None:
    if old.get("served", True) and not new.get("served", True):
        changes.add("breaking", "", "is not served any more")
    if new.get("deprecated") and not old.get("deprecated"):
        changes.add("note", "", "is deprecated; clients are warned")
    before, after = cast(Schema, old.get("subresources") or {}), cast(Schema, new.get("subresources") or {})
    if "status" in before and "status" not in after:
        changes.add("breaking", "subresources.status", "was removed; requests for it fail, and spec writes status, too")
    if "status" in after and "status" not in before:
        changes.add("breaking", "subresources.status", "is new; writes of the whole object leave status as it was")
    scales = cast(Schema, before.get("scale") or {}), cast(Schema, after.get("scale") or {})
    if scales[0] and not scales[1]:
        changes.add("breaking", "subresources.scale", "was removed; kubectl scale and autoscalers fail")
    elif scales[0]:
        for key in sorted({*scales[0], *scales[1]}):
            if scales[0].get(key) != scales[1].get(key):
                text = f"was {scales[0].get(key)!r}, is {scales[1].get(key)!r}"
                changes.add("note", f"subresources.scale.{key}", text)
    selectable = [{f["jsonPath"] for f in side.get("selectableFields") or ()} for side in (old, new)]
    for gone in sorted(selectable[0] - selectable[1]):
        changes.add("breaking", "selectableFields", f"{gone} was removed; selectors that use it fail")
    _schema(_root(old), _root(new), "", changes)


def _root(version: Schema) -> Schema:
    wrapper: Schema = version.get("schema") or {}
    return cast(Schema, wrapper.get("openAPIV3Schema") or {})


def _schema(old: Schema, new: Schema, path: str, changes: _Changes) -> None:
    """Compare two schemas of the same path, and their children."""
    here = path or "(root)"
    if not _same_type(old, new, here, changes):
        return
    for text in _tightened(old, new):
        changes.add("breaking", here, text)
    for text in _merged_otherwise(old, new):
        changes.add("note", here, text)
    if "default" in old and old.get("default") != new.get("default"):
        text = f"is {new['default']!r}" if "default" in new else "was removed"
        changes.add("note", here, f"the default was {old['default']!r} and {text}")
    _properties(old, new, path, changes)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            _schema(cast(Schema, before), cast(Schema, after), f"{path}{mark}", changes)


def _same_type(old: Schema, new: Schema, path: str, changes: _Changes) -> bool:
    was, now = _type(old), _type(new)
    if was == now or (was, now) in _WIDER or (now == "integer or string" and was in ("integer", "string")):
        return True
    if not now and _preserves(new):
        return True
    changes.add("breaking", path, f"was {was or 'anything'}, is {now or 'anything'}")
    return False


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return "map"
    return str(schema.get("type", ""))


def _preserves(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _tightened(old: Schema, new: Schema) -> Iterator[str]:
    """Yield the constraints that now refuse or prune values."""
    yield from _bounds(old, new)
    yield from _words(old, new)
    for flag, text in (
        ("nullable", "null is refused now"),
        ("x-kubernetes-preserve-unknown-fields", "unknown fields are pruned now"),
    ):
        if old.get(flag) and not new.get(flag):
            yield text
    if new.get("x-kubernetes-embedded-resource") and not old.get("x-kubernetes-embedded-resource"):
        yield "must be a complete object now"
    kinds = str(old.get("x-kubernetes-list-type", "atomic")), str(new.get("x-kubernetes-list-type", "atomic"))
    keys = old.get("x-kubernetes-list-map-keys"), new.get("x-kubernetes-list-map-keys")
    if kinds[1] in ("set", "map") and (kinds[0] != kinds[1] or keys[0] != keys[1]):
        what = "items" if kinds[1] == "set" else f"items of the same {', '.join(keys[1] or ())}"
        yield f"{what} may not be repeated now"
    known = {rule.get("rule") for rule in old.get("x-kubernetes-validations") or ()}
    for rule in new.get("x-kubernetes-validations") or ():
        if rule.get("rule") not in known:
            yield f"a new rule: {rule.get('rule')}"
    for key in _JUNCTORS:
        if new.get(key) and new.get(key) != old.get(key) and not new.get("x-kubernetes-int-or-string"):
            yield f"{key} is {'other than before' if old.get(key) else 'new'}"


def _bounds(old: Schema, new: Schema) -> Iterator[str]:
    for key in _LOWER:
        was, now = old.get(key), new.get(key)
        if now is not None and (was is None or now > was) and not (was is None and now == 0 and key != "minimum"):
            yield f"{key} {'is' if was is None else f'was {was}, is'} {now}"
    for key in _UPPER:
        was, now = old.get(key), new.get(key)
        if now is not None and (was is None or now < was):
            yield f"{key} {'is' if was is None else f'was {was}, is'} {now}"
    for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if new.get(key) and not old.get(key) and old.get(bound) == new.get(bound):
            yield f"{bound} {new.get(bound)} itself is refused now"
    was, now = old.get("multipleOf"), new.get("multipleOf")
    if now is not None and (was is None or was % now):
        yield f"must be a multiple of {now}" + ("" if was is None else f", was of {was}")


def _words(old: Schema, new: Schema) -> Iterator[str]:
    if new.get("pattern") and new.get("pattern") != old.get("pattern"):
        was = f"was {old['pattern']!r}, is" if old.get("pattern") else "is"
        yield f"pattern {was} {new['pattern']!r}"
    was, now = old.get("format"), new.get("format")
    if now and was != now and (was, now) not in _WIDER and not (was is None and now in ("int64", "double")):
        yield f"format {'is' if was is None else f'was {was}, is'} {now}"
    if (values := new.get("enum")) is not None:
        if old.get("enum") is None:
            yield f"only {', '.join(map(repr, values))} are allowed now"
        elif gone := [value for value in old["enum"] if value not in values]:
            yield f"{', '.join(map(repr, gone))} {'is' if len(gone) == 1 else 'are'} not allowed any more"


def _merged_otherwise(old: Schema, new: Schema) -> Iterator[str]:
    """Yield differences in how server-side apply merges the value."""
    for key, default in (("list", "atomic"), ("map", "granular")):
        name = f"x-kubernetes-{key}-type"
        was, now = old.get(name, default), new.get(name, default)
        if was != now:
            yield f"{name} was {was}, is {now}: server-side apply merges it differently"


def _properties(old: Schema, new: Schema, path: str, changes: _Changes) -> None:
    before, after = cast(Schema, old.get("properties") or {}), cast(Schema, new.get("properties") or {})
    required = {*(old.get("required") or ())}, {*(new.get("required") or ())}
    open_now = _preserves(new) or isinstance(new.get("additionalProperties"), Mapping)
    for name in before:
        if name not in after and not open_now and not (path == "" and name in ("apiVersion", "kind", "metadata")):
            changes.add(
                "breaking", _below(path, name), "was removed; values are pruned, and strict requests with it fail"
            )
    for name, schema in after.items():
        below = _below(path, name)
        newly = name in required[1] and name not in required[0]
        if newly and "default" not in schema:
            changes.add("breaking", below, "is required now" if name in before else "is new, and required")
        elif name not in before:
            changes.add("compatible", below, "is new")
        if name in before:
            _schema(before[name], schema, below, changes)
            if name in required[1] and "default" in before[name] and "default" not in schema and not newly:
                changes.add("breaking", below, "has lost its default, and is required")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
