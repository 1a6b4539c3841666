"""JSON patch (RFC 6902), as the API server's library reads it: leniently, with its own texts.

Deviations from the RFC that clients meet there and so meet here: negative indices count from the end, `replace` adds
a missing key of an object, and an unknown operation is refused when its turn comes. It never changes its arguments.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import msgspec

from steersman.models.jsonpatch import unescape
from steersman_cluster.errors import APIError, bad_request, too_large
from steersman_cluster.objects import Object
from steersman_cluster.schema.depth import bounded
from steersman_cluster.schema.scalars import described

__all__ = ["MAX_COPIED_BYTES", "MAX_OPERATIONS", "FailedTestError", "json_patch", "unknown_fields", "unprocessable"]

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Bytes of JSON that the `copy` operations of one patch may add, as kube-apiserver's `JSONPatchMaxCopyBytes`."""
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_MISSING = "missing value"
_INDEX = "invalid index referenced"
Container: TypeAlias = "dict[str, Any] | list[Any]"


_FIELDS = ("op", "path", "from", "value")


class _RefusedError(Exception):
    """An operation that does not apply; its text is the answer's."""


class FailedTestError(_RefusedError):
    """An operation `test` found another value."""


@bounded
def json_patch(doc: Object, ops: Any) -> Any:
    """The document after all operations in order.

    A patch that is no list of objects is a 400, more than 10,000 operations a 413, and an operation that does not
    apply a 422 that does not say why (its `__cause__` does, in the library's words).
    """
    if ops is None:
        return doc
    operations = _decoded(ops)
    if len(operations) > MAX_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")
    root: Container = copy.deepcopy(doc)
    copies = _Copies()
    try:
        for op in operations:
            root = _apply(root, cast("Mapping[str, Any]", op or {}), copies)
    except _RefusedError as refused:
        raise unprocessable() from refused
    return root


def unknown_fields(ops: Any) -> list[str]:
    """The texts with which strict validation refuses, or warns of, what no operation knows."""
    found: list[str] = []
    for index, op in enumerate(cast("list[Any]", ops or [])):
        keys = cast(Object, op) if isinstance(op, dict) else {}
        found.extend(f'json patch unknown field "[{index}].{key}"' for key in keys if key not in _FIELDS)
    return found


def _decoded(ops: Any) -> list[Any]:
    if not isinstance(ops, list):
        raise _undecodable(described(ops), "Go value of type []handlers.jsonPatchOp")
    operations = cast("list[Any]", ops)
    for op in operations:
        if op is None:
            continue
        if not isinstance(op, dict):
            raise _undecodable(described(op), "Go value of type handlers.jsonPatchOp")
        for key, value in cast(Object, op).items():
            if key in ("op", "path", "from") and not isinstance(value, str | None):
                raise _undecodable(described(value), f"Go struct field jsonPatchOp.{key} of type string")
    return operations


def _undecodable(what: str, into: str) -> APIError:
    return bad_request(f"error decoding patch: json: cannot unmarshal {what} into {into}")


def unprocessable() -> APIError:
    """The generic 422 for a patch that does not apply; the API server gives no reason."""
    return APIError(422, "Invalid", "the server rejected our request due to an error in our request", {})


class _Copies:
    """Counts what the `copy` operations of one patch add: doubling a value 30 times would make a gigabyte of a byte."""

    def __init__(self) -> None:
        self._bytes = 0

    def of(self, value: Any) -> Any:
        """Return a copy of a value. Raises `_RefusedError` when the copies of the patch are too large."""
        data = msgspec.json.encode(value)
        self._bytes += len(data)
        if self._bytes > MAX_COPIED_BYTES:
            raise _RefusedError(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._bytes}, "
                f"exceeding the limit {MAX_COPIED_BYTES}"
            )
        return copy.deepcopy(value)


def _apply(root: Container, op: Mapping[str, Any], copies: _Copies) -> Container:
    kind = op.get("op")
    match kind:
        case "add":
            _add(root, op)
        case "remove":
            _remove(root, op)
        case "replace":
            return _replace(root, op)
        case "move":
            _move(root, op)
        case "test":
            _test(root, op)
        case "copy":
            _copy(root, op, copies)
        case _:
            raise _RefusedError(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
    return root


def _add(root: Container, op: Mapping[str, Any]) -> None:
    path = _pointer(op, "path")
    if path is None:
        raise _RefusedError(f"add operation failed to decode path: {_MISSING}")
    container, key = _find(root, path)
    if container is None:
        raise _RefusedError(f'add operation does not apply: doc is missing path: "{path}": {_MISSING}')
    _insert(container, key, op.get("value"), f"error in add for path: '{path}'")


def _remove(root: Container, op: Mapping[str, Any]) -> None:
    path = _pointer(op, "path")
    if path is None:
        raise _RefusedError(f"remove operation failed to decode path: {_MISSING}")
    container, key = _find(root, path)
    if container is None:
        raise _RefusedError(f'remove operation does not apply: doc is missing path: "{path}": {_MISSING}')
    _delete(container, key, f"error in remove for path: '{path}'")


def _replace(root: Container, op: Mapping[str, Any]) -> Container:
    path = _pointer(op, "path")
    if path is None:
        raise _RefusedError(f"replace operation failed to decode path: operation missing path field: {_MISSING}")
    value = op.get("value")
    if path == "":
        if isinstance(value, dict | list):
            return cast(Container, value)
        raise _RefusedError("replace operation value must be object or array: %!w(<nil>)")
    container, key = _find(root, path)
    if container is None:
        raise _RefusedError(f"replace operation does not apply: doc is missing path: {path}: {_MISSING}")
    if isinstance(container, list):
        try:
            position = _position(container, key)
        except _RefusedError:
            raise _RefusedError(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from None
        container[position] = value
    else:
        container[key] = value
    return root


def _move(root: Container, op: Mapping[str, Any]) -> None:
    source = _pointer(op, "from")
    if source is None:
        raise _RefusedError(f"move operation failed to decode from: operation, missing from field: {_MISSING}")
    container, key = _find(root, source)
    if container is None:
        raise _RefusedError(f"move operation does not apply: doc is missing from path: {source}: {_MISSING}")
    value = _get(container, key, f"error in move for path: '{key}'")
    _delete(container, key, f"error in move for path: '{key}'")
    path = _pointer(op, "path")
    if path is None:
        raise _RefusedError(f"move operation failed to decode path: operation missing path field: {_MISSING}")
    container, key = _find(root, path)
    if container is None:
        raise _RefusedError(f"move operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    _insert(container, key, value, f"error in move for path: '{path}'")


def _test(root: Container, op: Mapping[str, Any]) -> None:
    path = _pointer(op, "path")
    if path is None:
        raise _RefusedError(f"test operation failed to decode path: operation missing path field: {_MISSING}")
    if path == "":
        found: Any = root
    else:
        container, key = _find(root, path)
        if container is None:
            raise _RefusedError(f"test operation does not apply: is missing path: {path}: {_MISSING}")
        found = _get(container, key, f"error in test for path: '{path}'")
    if not _same(found, op.get("value")):
        raise FailedTestError(f"testing value {path} failed: test failed")


def _copy(root: Container, op: Mapping[str, Any], copies: _Copies) -> None:
    source = _pointer(op, "from")
    if source is None:
        raise _RefusedError(f"copy operation failed to decode from: operation, missing from field: {_MISSING}")
    container, key = _find(root, source)
    if container is None:
        raise _RefusedError(f"copy operation does not apply: doc is missing from path: {source}: {_MISSING}")
    value = _get(container, key, f"error in copy for from: '{source}'")
    path = _pointer(op, "path")
    if path is None:
        raise _RefusedError(f"copy operation failed to decode path: {_MISSING}")
    container, key = _find(root, path)
    if container is None:
        raise _RefusedError(f"copy operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    _insert(container, key, copies.of(value), "error while adding value during copy")


def _pointer(op: Mapping[str, Any], name: str) -> str | None:
    value = op.get(name)
    return value if isinstance(value, str) else None


def _find(root: Container, path: str) -> tuple[Container | None, str]:
    """The container that a pointer's last step is in, and that step."""
    parts = path.split("/")
    if len(parts) < 2:
        return None, ""
    here: Any = root
    for part in parts[1:-1]:
        step = unescape(part)
        if isinstance(here, dict):
            here = cast(Object, here).get(step)
        else:
            try:
                here = cast("list[Any]", here)[_position(cast("list[Any]", here), step)]
            except _RefusedError:
                return None, ""
        if not isinstance(here, dict | list):
            return None, ""
    return cast(Container, here), unescape(parts[-1])


def _number(key: str) -> int:
    if not _INTEGER.match(key):
        raise _RefusedError(f'strconv.Atoi: parsing "{key}": invalid syntax')
    return int(key)


def _position(items: list[Any], key: str) -> int:
    index = _number(key)
    if index >= len(items) or index < -len(items):
        raise _RefusedError(f"Unable to access invalid index: {index}: {_INDEX}")
    return index if index >= 0 else index + len(items)


def _get(container: Container, key: str, context: str) -> Any:
    """A missing key of an object is null, as in the library; a missing index is refused."""
    if isinstance(container, dict):
        return container.get(key)
    try:
        return container[_position(container, key)]
    except _RefusedError as refused:
        raise _RefusedError(f"{context}: {refused}") from None


def _delete(container: Container, key: str, context: str) -> None:
    if isinstance(container, dict):
        if key not in container:
            raise _RefusedError(f"{context}: Unable to remove nonexistent key: {key}: {_MISSING}")
        del container[key]
        return
    try:
        del container[_position(container, key)]
    except _RefusedError as refused:
        raise _RefusedError(f"{context}: {refused}") from None


def _insert(container: Container, key: str, value: Any, context: str) -> None:
    if isinstance(container, dict):
        container[key] = value
        return
    if key == "-":
        container.append(value)
        return
    if not _INTEGER.match(key):
        raise _RefusedError(
            f"{context}: value was not a proper array index: '{key}': strconv.Atoi: parsing \"{key}\": invalid syntax"
        )
    index, size = int(key), len(container) + 1
    if index >= size or index < -size:
        raise _RefusedError(f"{context}: Unable to access invalid index: {index}: {_INDEX}")
    container.insert(index if index >= 0 else index + size, value)


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: true is not 1, and 1 is not 1.0 (numbers compare as written)."""
    kinds: tuple[object, object] = (left.__class__, right.__class__)
    if kinds[0] is not kinds[1]:
        return False
    if isinstance(left, dict):
        mine, theirs = cast(Object, left), cast(Object, right)
        return mine.keys() == theirs.keys() and all(_same(value, theirs[key]) for key, value in mine.items())
    if isinstance(left, list):
        ours, others = cast("list[Any]", left), cast("list[Any]", right)
        return len(ours) == len(others) and all(map(_same, ours, others))
    return bool(left == right)
