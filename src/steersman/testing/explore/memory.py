"""Digests of what an operator and a scenario keep in memory: two equal digests mean equal variables.

A run that has reached a state of the reference continues as the reference does only if the program has the same
variables. The digest includes the closures of functions, the global variables that they name, and the attributes of
objects. Objects of this framework count by their type, because a settled operator has no work and complete caches.
"""

from __future__ import annotations

import asyncio
import enum
import hashlib
import inspect
import itertools
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set, ValuesView
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta, tzinfo
from functools import partial
from numbers import Number
from pathlib import PurePath
from re import Pattern
from types import BuiltinFunctionType, CodeType, CoroutineType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast
from uuid import UUID

import msgspec

from steersman.operator.operator import Operator

__all__ = ["handlers", "memory_digest", "scenario_frames"]

MAX_VALUES: Final = 20_000
"""Values after which a digest is given up."""
MAX_DEPTH: Final = 100
_PLAIN: Final[tuple[type[Any], ...]] = (
    type(None), Number, bytes, bytearray, range, date, time, timedelta, tzinfo, UUID,
    PurePath, Pattern, itertools.count,
)  # fmt: skip
_ASYNCIO: Final = (asyncio.Queue, asyncio.Event, asyncio.Lock, asyncio.Semaphore, asyncio.Future)
_BY_TYPE: Final = frozenset({
    "__future__", "asyncio", "contextvars", "logging", "opentelemetry", "prometheus_client", "random", "steersman",
    "steersman_cluster", "structlog", "typing",
})  # fmt: skip
"""Top-level modules whose objects count by their type."""


_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class _OpaqueError(Exception):
    """A value has contents that cannot be read."""


def memory_digest(roots: Iterable[object], packages: Iterable[str] = ()) -> str | None:
    """Return a digest of values and of everything that they refer to; `None` if a value cannot be read.

    Args:
        roots: Functions, frames and values.
        packages: Modules whose functions and objects are read although they are installed, with those below them.
    """
    try:
        return _Reader(tuple(packages)).of(tuple(roots), 0).hex()
    except (_OpaqueError, RecursionError):
        return None


def handlers(operator: Operator) -> Iterator[Callable[..., Any]]:
    """Yield the user's functions of an operator."""
    for controller in operator.controllers:
        yield controller.handler.call
        yield from (watch.to for watch in controller.watches if callable(watch.to))
        if callable(controller.where):
            yield controller.where
    for declared in (*operator.finalizers, *operator.timers, *operator.hooks, *operator.webhooks):
        yield declared.handler.call
    yield from (index.function for index in operator.indexes)


def scenario_frames() -> Iterator[FrameType]:
    """Yield the frames that have called this function in the running task, without those of installed modules."""
    frame = inspect.currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("asyncio."):
            return
        if not _is_installed(name):
            yield frame
        frame = frame.f_back


def _is_installed(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in _BY_TYPE:
        return True
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


class _Reader:
    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = tuple(package for package in packages if package not in ("", "steersman"))
        self._known: dict[int, bytes] = {}
        self._kept: list[object] = []  # an id is unique only while its object lives
        self._open: dict[int, int] = {}

    def of(self, value: Any, depth: int) -> bytes:
        """Return the digest of a value."""
        if isinstance(value, enum.Enum):
            return _hashed("enum", _name(type(value)), value.name)
        if isinstance(value, str):
            return _hashed("str", _UID.sub("<uid>", value))
        if isinstance(value, _PLAIN):
            plain = cast("Any", value)
            return _hashed(_name(cast("type[Any]", type(plain))), repr(plain))
        key = id(value)
        if (found := self._known.get(key)) is not None:
            return found
        if key in self._open:
            return _hashed("cycle", str(depth - self._open[key]))
        if depth > MAX_DEPTH or len(self._kept) > MAX_VALUES:
            raise _OpaqueError
        self._open[key] = depth
        self._kept.append(value)
        try:
            found = self._read(value, depth + 1)
        finally:
            del self._open[key]
        self._known[key] = found
        return found

    def _read(self, value: Any, depth: int) -> bytes:
        if isinstance(value, FunctionType):
            return self._function(value, depth)
        if isinstance(value, type):
            return self._class(cast("type[Any]", value), depth)
        if isinstance(value, FrameType | CoroutineType | asyncio.Task):
            return self._running(value, depth)
        if isinstance(value, _ASYNCIO):
            return _waiting(value)
        return self._callable(value, depth) or self._object(value, depth)

    def _callable(self, value: Any, depth: int) -> bytes | None:
        match value:
            case MethodType():
                return _hashed("method", self.of(value.__func__, depth), self.of(value.__self__, depth))
            case partial():
                applied = cast("partial[Any]", value)
                return _hashed("partial", self.of((applied.func, applied.args, applied.keywords), depth))
            case staticmethod() | classmethod():
                return self.of(cast("Any", value).__func__, depth)
            case property():
                return self.of((value.fget, value.fset), depth)
            case BuiltinFunctionType() | ModuleType():
                return _hashed("named", value.__name__)
            case _:
                return None

    def _running(self, value: Any, depth: int) -> bytes:
        """Return the digest of a task, a coroutine or a frame: the line and, of the operator's own code, variables."""
        if isinstance(value, asyncio.Task):
            return _hashed("task", self.of(cast("asyncio.Task[Any]", value).get_coro(), depth))
        if isinstance(value, CoroutineType):
            coroutine = cast("CoroutineType[Any, Any, Any]", value)
            if coroutine.cr_frame is None:
                return _hashed("coroutine")
            inner = coroutine.cr_await
            below = self.of(inner, depth) if isinstance(inner, CoroutineType) else b""
            return _hashed("coroutine", self.of(coroutine.cr_frame, depth), below)
        frame = cast("FrameType", value)
        name, line = frame.f_code.co_qualname, str(frame.f_lasti)
        if not self._is_own(str(frame.f_globals.get("__name__", ""))):
            return _hashed("frame", name, line)
        variables = {key: one for key, one in dict(frame.f_locals).items() if not key.startswith("@")}
        named = self._named(frame.f_code, frame.f_globals)
        return _hashed("frame", name, line, self._fields({**named, **variables}, depth))

    def _object(self, value: Any, depth: int) -> bytes:
        kind = cast("type[Any]", type(value))
        name = _name(kind)
        if isinstance(value, Mapping):
            pairs = cast("Mapping[Any, Any]", value)
            items = sorted(self.of(k, depth) + self.of(v, depth) for k, v in pairs.items())
            return _hashed("mapping", name, *items)
        if isinstance(value, Set):
            return _hashed("set", name, *sorted(self.of(one, depth) for one in cast("Set[Any]", value)))
        if isinstance(value, list | tuple | deque | ValuesView):
            return _hashed("sequence", name, *(self.of(one, depth) for one in cast("list[Any]", value)))
        if callable(wrapped := getattr(value, "__wrapped__", None)):  # functools.cache
            return _hashed("wrapper", name, self.of(wrapped, depth))
        own = self._is_own(kind.__module__)
        if isinstance(value, msgspec.Struct) or (is_dataclass(value) and not isinstance(value, type)):
            names = value.__struct_fields__ if isinstance(value, msgspec.Struct) else [f.name for f in fields(value)]
            attributes = {one: getattr(value, one, None) for one in names}
        elif kind.__module__.partition(".")[0] in _BY_TYPE and not own:
            return _hashed("instance", name)
        elif own:
            attributes = _attributes(value)
        else:
            raise _OpaqueError
        return _hashed("object", self.of(kind, depth) if own else name, self._fields(attributes, depth))

    def _function(self, function: FunctionType, depth: int) -> bytes:
        name = f"{function.__module__}.{function.__qualname__}"
        if not self._is_own(function.__module__):
            return _hashed("function", name)
        cells: dict[str, Any] = {}
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                cells[variable] = cell.cell_contents
            except ValueError:  # not assigned yet
                cells[variable] = None
        named = self._named(function.__code__, function.__globals__)
        defaults = (function.__defaults__, function.__kwdefaults__)
        return _hashed("function", name, self._fields({**named, **cells}, depth), self.of(defaults, depth))

    def _class(self, kind: type[Any], depth: int) -> bytes:
        name = _name(kind)
        if not self._is_own(kind.__module__):
            return _hashed("class", name)
        kept: dict[str, Any] = {
            key: one for key, one in vars(kind).items()
            if not key.startswith("__")
            and (isinstance(one, FunctionType | staticmethod | classmethod | property | dict | list | set))
        }  # fmt: skip
        return _hashed("class", name, self._fields(kept, depth))

    def _named(self, code: CodeType, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the global variables that a function and the functions in it name."""
        found: dict[str, Any] = {}
        for name in _names(code):
            if name not in variables:
                continue
            value = variables[name]
            found[name] = value
            if isinstance(value, ModuleType) and self._is_own(value.__name__):
                found |= {f"{name}.{one}": vars(value)[one] for one in _names(code) if one in vars(value)}
        return found

    def _fields(self, values: Mapping[str, Any], depth: int) -> bytes:
        return _hashed(*(part for key in sorted(values) for part in (key, self.of(values[key], depth))))

    def _is_own(self, module: str | None) -> bool:
        name = module or ""
        if any(name == package or name.startswith(f"{package}.") for package in self._packages):
            return True
        return not _is_installed(name)


def _waiting(value: Any) -> bytes:
    """Return the digest of an object of asyncio that has no content. Raises `_OpaqueError`."""
    name = _name(cast("type[Any]", type(value)))
    if isinstance(value, asyncio.Event):
        return _hashed(name, str(value.is_set()))
    if isinstance(value, asyncio.Queue):
        idle = cast("asyncio.Queue[Any]", value).empty()
    elif isinstance(value, asyncio.Future):
        idle = not cast("asyncio.Future[Any]", value).done()
    else:
        idle = not value.locked()
    if not idle:
        raise _OpaqueError
    return _hashed(name)


def _attributes(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots: Any = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name) and name not in ("__dict__", "__weakref__"):
                found[name] = getattr(value, name)
    if not found and not hasattr(value, "__dict__"):
        raise _OpaqueError
    return found


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _hashed(*parts: str | bytes) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        made.update(len(data).to_bytes(4, "big"))
        made.update(data)
    return made.digest()
