"""No module imports another that imports it, directly or not, imports for types and in functions included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import grimp


def cycles(imports: Mapping[str, Iterable[str]]) -> set[frozenset[str]]:
    """Return the strongly connected components with more than one module (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for imported in imports[module]:
            if imported not in order:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in path:
                lowest[module] = min(lowest[module], order[imported])
        if lowest[module] == order[module]:
            start = path.index(module)
            component = frozenset(path[start:])
            del path[start:]
            if len(component) > 1:
                found.add(component)

    for module in imports:
        if module not in order:
            visit(module)
    return found


def test_a_cycle_is_found_and_a_diamond_is_none():
    diamond = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
    assert cycles(diamond) == set()
    assert cycles({**diamond, "d": ["b"]}) == {frozenset(("b", "d"))}


def test_modules_do_not_import_each_other():
    graph = grimp.build_graph("steersman", "steersman_cluster", cache_dir=None)
    imports = {module: sorted(graph.find_modules_directly_imported_by(module)) for module in sorted(graph.modules)}
    found = cycles(imports)
    described = [sorted(cycle) for cycle in found]
    assert described == [], "break the cycle: move what both modules need to a module below them"
