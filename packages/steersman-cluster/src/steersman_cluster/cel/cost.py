"""The greatest cost of an expression before it is evaluated, in the units of the API server's budget.

Follows cel-go's `checker.Cost` and Kubernetes' `library.CostEstimator`: which rules a definition may have is decided
by these numbers, so that their oddities are followed as well. Only upper bounds of costs are kept; of sizes both, since
the smallest text that is replaced makes the largest result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from steersman_cluster.cel.checker import Checked
from steersman_cluster.cel.declarations import Overload
from steersman_cluster.cel.library_cost import Argument, library_cost
from steersman_cluster.cel.sizes import Decl
from steersman_cluster.cel.spans import MAX_UINT64, UNKNOWN, Span, fixed, plus, scaled, times
from steersman_cluster.cel.syntax import (
    Call,
    Comprehension,
    Const,
    Ident,
    ListOf,
    MapOf,
    Node,
    Select,
)
from steersman_cluster.cel.types import ANY, Type

__all__ = ["estimate"]

_LIST, _MAP, _STRUCT = 10, 30, 40
_TEXT: Final = 0.1
_REGEX: Final = 0.25
_SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_COMPARED: Final = frozenset({"_<_", "_>_", "_<=_", "_>=_"})


def estimate(checked: Checked, root: Decl) -> int:
    """Return the greatest cost of a checked expression with variables of the kind `root`."""
    return _Coster(checked, root).cost(checked.parsed.root)


class _Entry(NamedTuple):
    """Sizes of what a list or map holds."""

    is_list: bool
    key: Span
    value: Span

    def union(self, other: _Entry | None) -> _Entry | None:
        if other is None:
            return None
        return _Entry(self.is_list, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class _Local:
    path: tuple[str, ...]
    size: Span | None
    entry: _Entry | None = None


class _Coster:
    def __init__(self, checked: Checked, root: Decl) -> None:
        self.checked, self.root = checked, root
        self.paths: dict[int, tuple[str, ...]] = {}
        self.sizes: dict[int, Span] = {}
        self.entries: dict[int, _Entry] = {}
        self.locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> int:
        match node:
            case Const():
                return 0
            case Ident():
                local = self._local(node)
                self.paths[node.id] = local.path if local is not None else (node.name,)
                return 1
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListOf():
                return self._list(node)
            case MapOf():
                return self._map(node)
            case Comprehension():
                return self._bind(node) if _is_bind(node) else self._comprehension(node)

    def _type(self, node: Node) -> Type:
        return self.checked.types.get(node.id, ANY)

    def _local(self, node: Node) -> _Local | None:
        stack = self.locals.get(node.name) if isinstance(node, Ident) else None
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def _pop(self, name: str) -> None:
        self.locals[name].pop()

    def _path(self, node: Node) -> tuple[str, ...]:
        local = self._local(node)
        return local.path if local is not None else self.paths.get(node.id, ())

    def _select(self, node: Select) -> int:
        below = self.cost(node.operand)
        if node.test:
            return below
        step = 1 if self._type(node.operand).kind in ("map", "object", "param") else 0
        self.paths[node.id] = (*self._path(node.operand), node.field)
        return plus(below, step)

    def _list(self, node: ListOf) -> int:
        total, size = 0, Span(0 if not node.elements else MAX_UINT64, 0)
        for element in node.elements:
            total = plus(total, self.cost(element))
            size = size.union(self._known(element))
        self.entries[node.id] = _Entry(is_list=True, key=fixed(1), value=size)
        return plus(total, _LIST)

    def _map(self, node: MapOf) -> int:
        if node.message:
            return plus(sum(self.cost(value) for _, value, _ in node.entries), _STRUCT)
        total = 0
        key = value = Span(0 if not node.entries else MAX_UINT64, 0)
        for each, content, _ in node.entries:
            total = plus(total, plus(self.cost(each), self.cost(content)))
            key, value = key.union(self._known(each)), value.union(self._known(content))
        self.entries[node.id] = _Entry(is_list=False, key=key, value=value)
        return plus(total, _MAP)

    def _comprehension(self, node: Comprehension) -> int:
        total = plus(self.cost(node.source), self.cost(node.initial))
        self._push(node.accumulator, self._bound(node.initial))
        if node.second:
            self._push(node.item, self._item(node.source, key=True))
            self._push(node.second, self._item(node.source, key=False))
        else:
            self._push(node.item, self._item(node.source, key=not self._is_list(node.source)))
        each = plus(self.cost(node.condition), self.cost(node.step))
        self._pop(node.item)
        if node.second:
            self._pop(node.second)
        total = plus(total, self.cost(node.result))
        self._pop(node.accumulator)
        count = self._known(node.source)
        total = plus(total, times(count.most, each))
        match node.initial:
            case Const():
                self._set_size(node, self.size(node.initial))
            case ListOf() | MapOf():
                self.sizes[node.id] = count
                if (entry := self._entry(node.step)) is not None:
                    self.entries[node.id] = entry
            case _:
                pass
        return total

    def _bind(self, node: Comprehension) -> int:
        total = plus(self.cost(node.source), self.cost(node.initial))
        self._push(node.accumulator, self._bound(node.initial))
        total = plus(total, self.cost(node.result))
        self._pop(node.accumulator)
        self._copy(node, node.result)
        return total

    def _bound(self, node: Node) -> _Local:
        return _Local(self._path(node), self.size(node), self._entry(node))

    def _is_list(self, node: Node) -> bool:
        entry = self._entry(node)
        return entry.is_list if entry is not None else self._type(node).kind == "list"

    def _item(self, source: Node, *, key: bool) -> _Local:
        entry = self._entry(source)
        steps = ("@indices", "@items") if self._is_list(source) else ("@keys", "@values")
        step = steps[0] if key else steps[1]
        size = None if entry is None else entry.key if key else entry.value
        return _Local((*self._path(source), step), size)

    def _call(self, node: Call) -> int:
        if node.function == "dyn":
            total = plus(1, self.cost(node.args[0]))
            self._copy(node, node.args[0])
            return total
        given = [self.cost(arg) for arg in node.args]
        member = node.target is not None and node.id not in self.checked.qualified
        name = self.checked.qualified.get(node.id, node.function)
        overloads = self.checked.overloads.get(node.id, ())
        if not overloads:
            return 0
        target = node.target if member else None
        before = 0 if target is None else self.cost(target)
        highest, size = 0, None
        for overload in overloads:
            most, result = self._function(node, name, overload, target, given)
            highest = max(highest, most)
            if result is not None:
                size = result if size is None else size.union(result)
            if name == "_[_]" and overload.params[0].kind in ("list", "map"):
                entry = self._entry(node.args[0])
                size = entry.value if entry is not None else None
                step = "@items" if overload.params[0].kind == "list" else "@values"
                self.paths[node.id] = (*self._path(node.args[0]), step)
            if size is None:
                size = self.size(node)
        self._set_size(node, size)
        return plus(before, highest)

    def _argument(self, node: Node) -> Argument:
        path = self._path(node)
        root = () if path and path[0] in ("__result__", "@result") else path
        return Argument(self._type(node), root, self.size(node), node)

    def _function(
        self, node: Call, name: str, overload: Overload, target: Node | None, given: Sequence[int]
    ) -> tuple[int, Span | None]:
        """Return the cost of one overload with its arguments, and the size of the result if it is known."""
        together = 0
        for each in given:
            together = plus(together, each)
        arguments = [self._argument(arg) for arg in node.args]
        receiver = None if target is None else self._argument(target)
        if (known := library_cost(name, overload, receiver, arguments, self._sized)) is not None:
            return plus(known.cost, together), known.size
        match name:
            case "_||_" | "_&&_":
                return together, None
            case "_?_:_":
                return self._conditional(node, given)
            case "_+_" if overload.params[0].kind in ("string", "bytes", "list"):
                return self._joined(node, overload.params[0].kind, together)
            case _:
                own, size = self._standard(node, name, overload, target)
                return plus(own, together), size

    def _conditional(self, node: Call, given: Sequence[int]) -> tuple[int, Span | None]:
        yes, no = node.args[1], node.args[2]
        entry = self._entry(yes)
        if entry is not None and (both := entry.union(self._entry(no))) is not None:
            self.entries[node.id] = both
        return plus(given[0], max(given[1], given[2])), self._known(yes).union(self._known(no))

    def _joined(self, node: Call, kind: str, together: int) -> tuple[int, Span | None]:
        left, right = node.args
        size = self._known(left).add(self._known(right))
        entry = self._entry(left)
        if entry is not None and (both := entry.union(self._entry(right))) is not None:
            self.entries[node.id] = both
        return plus(1 if kind == "list" else scaled(size.most, _TEXT), together), size

    def _standard(  # noqa: C901 - one case per function that is not of constant cost
        self, node: Call, name: str, overload: Overload, target: Node | None
    ) -> tuple[int, Span | None]:
        args = node.args
        match name:
            case "format" if target is not None:
                return scaled(self._known(target).most, _TEXT), None
            case "bytes" if overload.params[0].kind == "string":
                size = self._known(args[0])
                return scaled(size.most, _TEXT), Span(size.least, min(size.most * 4, MAX_UINT64))
            case "string" if overload.params[0].kind == "bytes":
                size = self._known(args[0])
                return scaled(size.most, _TEXT), Span(size.least // 4, size.most)
            case "strings.quote":
                size = self._known(args[0])
                return scaled(size.most, _TEXT), Span(size.least + 2, min(size.most * 2 + 2, MAX_UINT64))
            case "startsWith" | "endsWith":
                return scaled(self._known(args[0]).most, _TEXT), None
            case "@in" if overload.params[1].kind == "list":
                return self._known(args[1]).most, None
            case "matches" if target is not None:
                text = scaled(plus(self._known(target).most, 1), _TEXT)
                return times(text, scaled(self._known(args[0]).most, _REGEX)), None
            case "contains" if target is not None:
                text = scaled(self._known(target).most, _TEXT)
                return times(text, scaled(self._known(args[0]).most, _TEXT)), None
            case "_==_" | "_!=_":
                return self._compared(args), None
            case _ if name in _COMPARED and {p.kind for p in overload.params} <= {"string", "bytes"}:
                return self._compared(args), None
            case _:
                return 1, None

    def _compared(self, args: Sequence[Node]) -> int:
        return scaled(min(self._known(args[0]).most, self._known(args[1]).most), _TEXT)

    def _known(self, node: Node) -> Span:
        size = self.size(node)
        return UNKNOWN if size is None else size

    def size(self, node: Node) -> Span | None:
        """The size of a value, where anything is known of it."""
        if node.id in self.sizes:
            return self.sizes[node.id]
        match node:
            case Const(value=str() | bytes() as value):
                return fixed(len(value))
            case Const():
                return fixed(1)
            case ListOf(elements=elements):
                return fixed(len(elements))
            case MapOf(entries=entries, message=""):
                return fixed(len(entries))
            case _:
                pass
        if (declared := self._sized(self._path(node))) is not None:
            self.sizes[node.id] = declared
            return declared
        if _is_scalar(self._type(node)):
            return fixed(1)
        local = self._local(node)
        return local.size if local is not None else None

    def _sized(self, path: Sequence[str]) -> Span | None:
        found = self.root.at(path[1:]) if path else None
        return None if found is None else Span(0, found.most)

    def _set_size(self, node: Node, size: Span | None) -> None:
        if size is not None:
            self.sizes[node.id] = size

    def _entry(self, node: Node) -> _Entry | None:
        if (found := self.entries.get(node.id)) is not None:
            return found
        local = self._local(node)
        return local.entry if local is not None else None

    def _copy(self, node: Node, source: Node) -> None:
        self._set_size(node, self.size(source))
        if (entry := self._entry(source)) is not None:
            self.entries[node.id] = entry


def _is_scalar(kind: Type) -> bool:
    return kind.kind in _SCALARS or (kind.kind == "optional" and _is_scalar(kind.params[0]))


def _is_bind(node: Comprehension) -> bool:
    """Return whether a comprehension runs over nothing, to name a value (`optMap`)."""
    return (
        isinstance(node.source, ListOf)
        and not node.source.elements
        and isinstance(node.condition, Const)
        and node.condition.value is False
        and node.accumulator != "__result__"
    )
