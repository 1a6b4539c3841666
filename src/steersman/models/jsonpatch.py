"""JSON patches (RFC 6902) and pointers (RFC 6901): construction, comparison of documents, and application.

Documents are not modified; a result shares unchanged parts with its input. A patch is applied as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, cast

import msgspec

from steersman.models.wire import encode, to_dict

__all__ = ["JsonPatch", "Operation", "PatchError", "escape", "plain", "pointer", "same", "split_pointer", "unescape"]


class PatchError(ValueError):
    """A patch is malformed or does not fit its document; `pointer` (RFC 6901) is the place."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer or '/'}: {message}")
        self.pointer = pointer


def escape(step: str) -> str:
    """Escape one step of a JSON pointer: `app.kubernetes.io/name` → `app.kubernetes.io~1name`."""
    return step.replace("~", "~0").replace("/", "~1")


def unescape(token: str) -> str:
    """Return a reference token of a JSON pointer without its escapes: `io~1name` becomes `io/name`."""
    return token.replace("~1", "/").replace("~0", "~") if "~" in token else token


def pointer(*steps: str | int) -> str:
    """Return a JSON pointer (RFC 6901) from its steps; no steps mean the whole document."""
    return "".join(f"/{escape(str(step))}" for step in steps)


def split_pointer(path: str) -> tuple[str, ...]:
    """Return the steps of a JSON pointer. Raises `PatchError` if it does not begin with `/`."""
    if not path:
        return ()
    if not path.startswith("/"):
        raise PatchError(path, "a JSON pointer begins with '/'")
    return tuple(unescape(step) for step in path[1:].split("/"))


def plain(value: Any) -> Any:
    """Return the JSON values of a model or of plain data."""
    return value if value is None or isinstance(value, bool | int | float | str) else cast(Any, to_dict(value))


def same(a: Any, b: Any) -> bool:
    """Compare JSON values: 1 equals 1.0, but not true."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = cast("dict[str, Any]", a), cast("dict[str, Any]", b)
        return left.keys() == right.keys() and all(same(v, right[k]) for k, v in left.items())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        one, two = cast("list[Any]", a), cast("list[Any]", b)
        return len(one) == len(two) and all(map(same, one, two))
    return bool(a == b)


class Operation(msgspec.Struct, frozen=True, rename={"from_": "from"}, omit_defaults=True):
    """One operation of a JSON patch."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    value: Any = msgspec.UNSET
    from_: str | None = None


class JsonPatch:
    """Operations in order (RFC 6902): `JsonPatch().test("/spec/size", 1).replace("/spec/size", 2)`.

    `apply` raises `PatchError` at the first operation that does not fit.
    """

    content_type: ClassVar[Final] = "application/json-patch+json"  # type: ignore[misc]

    __slots__ = ("operations",)

    operations: tuple[Operation, ...]

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self.operations = tuple(operations)

    def _and(self, operation: Operation) -> JsonPatch:
        return JsonPatch((*self.operations, operation))

    def add(self, path: str, value: Any) -> JsonPatch:
        """Set a member, or insert an item into a list before an index (`-`: at its end)."""
        return self._and(Operation("add", path, plain(value)))

    def replace(self, path: str, value: Any) -> JsonPatch:
        """Replace an existing value."""
        return self._and(Operation("replace", path, plain(value)))

    def remove(self, path: str) -> JsonPatch:
        """Remove an existing value."""
        return self._and(Operation("remove", path))

    def move(self, from_: str, path: str) -> JsonPatch:
        """Move a value."""
        return self._and(Operation("move", path, from_=from_))

    def copy(self, from_: str, path: str) -> JsonPatch:
        """Copy a value."""
        return self._and(Operation("copy", path, from_=from_))

    def test(self, path: str, value: Any) -> JsonPatch:
        """Require a value; the optimistic lock of a JSON patch."""
        return self._and(Operation("test", path, plain(value)))

    def __add__(self, other: JsonPatch) -> JsonPatch:
        return JsonPatch((*self.operations, *other.operations))

    def __bool__(self) -> bool:
        return bool(self.operations)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonPatch) and self.encode() == other.encode()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"JsonPatch({', '.join(f'{o.op} {o.path}' for o in self.operations)})"

    def __to_wire__(self) -> list[Operation]:
        return list(self.operations)

    def encode(self) -> bytes:
        """Return the body of the request."""
        return encode(list(self.operations))

    @classmethod
    def decode(cls, data: bytes) -> JsonPatch:
        """Parse the body of a request. Raises `PatchError` if it is not a JSON patch."""
        try:
            return cls(msgspec.json.decode(data, type=tuple[Operation, ...]))
        except msgspec.DecodeError as problem:
            raise PatchError("", f"not a JSON patch: {problem}") from None

    @classmethod
    def diff(cls, before: Any, after: Any) -> JsonPatch:
        """Return the operations that change `before` to `after` (plain data or models); empty if they are equal."""
        return cls(_differences("", plain(before), plain(after)))

    def apply(self, document: Any) -> Any:
        """Return a new document with all operations applied."""
        for operation in self.operations:
            document = _apply(document, operation)
        return document


def _differences(path: str, before: Any, after: Any) -> list[Operation]:
    if same(before, after):
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return _map_differences(path, cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after))
    if isinstance(before, list) and isinstance(after, list):
        return _list_differences(path, cast("list[Any]", before), cast("list[Any]", after))
    return [Operation("replace", path, after)]


def _map_differences(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Operation]:
    found = [Operation("remove", f"{path}/{escape(k)}") for k in before if k not in after]
    for key, value in after.items():
        where = f"{path}/{escape(key)}"
        found += _differences(where, before[key], value) if key in before else [Operation("add", where, value)]
    return found


def _list_differences(path: str, before: list[Any], after: list[Any]) -> list[Operation]:
    shorter = min(len(before), len(after))
    start = 0
    while start < shorter and same(before[start], after[start]):
        start += 1
    tail = 0
    while tail < shorter - start and same(before[-1 - tail], after[-1 - tail]):
        tail += 1
    old, new = before[start : len(before) - tail], after[start : len(after) - tail]
    both = min(len(old), len(new))
    found: list[Operation] = []
    for offset in range(both):
        found += _differences(f"{path}/{start + offset}", old[offset], new[offset])
    found += [Operation("remove", f"{path}/{start + both}") for _ in old[both:]]
    found += [Operation("add", f"{path}/{start + both + n}", value) for n, value in enumerate(new[both:])]
    return found


def _apply(document: Any, operation: Operation) -> Any:
    path = operation.path
    match operation.op:
        case "add":
            return _add(document, path, _value(operation))
        case "remove":
            return _remove(document, path)
        case "replace":
            _get(document, path)
            return _write(document, split_pointer(path), _value(operation), path, insert=False)
        case "test":
            if not same(_get(document, path), _value(operation)):
                raise PatchError(path, "the test failed: the value is another")
            return document
        case "copy":
            return _add(document, path, _get(document, _origin(operation)))
        case "move":
            origin = _origin(operation)
            if path.startswith(f"{origin}/"):
                raise PatchError(path, f"cannot move {origin!r} into itself")
            return _add(_remove(document, origin), path, _get(document, origin))


def _value(operation: Operation) -> Any:
    if operation.value is msgspec.UNSET:
        raise PatchError(operation.path, f"operation {operation.op!r} needs a value")
    return operation.value


def _origin(operation: Operation) -> str:
    if operation.from_ is None:
        raise PatchError(operation.path, f"operation {operation.op!r} needs 'from'")
    return operation.from_


def _index(step: str, length: int, path: str) -> int:
    if not (step.isascii() and step.isdigit()) or (len(step) > 1 and step[0] == "0"):
        raise PatchError(path, f"{step!r} is not an index of a list")
    index = int(step) if len(step) < 12 else length + 1
    if index >= length:
        raise PatchError(path, f"index {step} is beyond the list's end ({length} items)")
    return index


def _get(document: Any, path: str) -> Any:
    for step in split_pointer(path):
        document = _child(document, step, path)
    return document


def _child(node: Any, step: str, path: str) -> Any:
    if isinstance(node, Mapping):
        members = cast("Mapping[str, Any]", node)
        if step not in members:
            raise PatchError(path, f"there is no {step!r}")
        return members[step]
    if isinstance(node, Sequence) and not isinstance(node, str):
        items = cast("Sequence[Any]", node)
        return items[_index(step, len(items), path)]
    raise PatchError(path, f"{step!r} is below a value that is neither object nor list")


def _add(document: Any, path: str, value: Any) -> Any:
    return _write(document, split_pointer(path), value, path, insert=True)


def _write(node: Any, steps: tuple[str, ...], value: Any, path: str, *, insert: bool) -> Any:
    """Return `node` with `value` at `steps`; only the containers on the path are copied."""
    if not steps:
        return value
    step, *rest = steps
    child = _write(_child(node, step, path), tuple(rest), value, path, insert=insert) if rest else value
    if isinstance(node, Mapping):
        return {**cast("Mapping[str, Any]", node), step: child}
    if not isinstance(node, Sequence) or isinstance(node, str):
        raise PatchError(path, f"{step!r} is below a value that is neither object nor list")
    items = list(cast("Sequence[Any]", node))
    if rest or not insert:
        items[_index(step, len(items), path)] = child
    elif step == "-":
        items.append(child)
    else:
        items.insert(_index(step, len(items) + 1, path), child)
    return items


def _remove(document: Any, path: str) -> Any:
    steps = split_pointer(path)
    if not steps:
        raise PatchError(path, "the whole document cannot be removed")
    parent_path = pointer(*steps[:-1])
    parent = _get(document, parent_path)
    _child(parent, steps[-1], path)
    if isinstance(parent, Mapping):
        shrunk: Any = {k: v for k, v in cast("Mapping[str, Any]", parent).items() if k != steps[-1]}
    else:
        items = cast("Sequence[Any]", parent)
        index = int(steps[-1])
        shrunk = [*items[:index], *items[index + 1 :]]
    return _write(document, steps[:-1], shrunk, path, insert=False)
