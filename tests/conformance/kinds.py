"""The cases of the built-in kinds, asked of both servers: one sequence for each resource.

A change is sent as a merge patch, since the two servers' objects have other uids and versions. Where Go goes through
a map, the order of errors is random; so errors are compared by their causes, without order.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import pytest

from tests.cluster.kinds.cases import Case

from .harness import JSON, MERGE, Answer, Both, compare, normalise

ALLOCATED = ("spec.clusterIP", "spec.clusterIPs", "spec.ports.nodePort", "spec.healthCheckNodePort")


def sequences(cases: Sequence[Case]) -> list[Any]:
    """The cases by resource, in their order; each sequence is one parameter of a test."""

    def resource(case: Case) -> str:
        parts = case.path.removeprefix("/api/v1/").removeprefix("/apis/").split("/")
        parts = parts[2:] if case.path.startswith("/apis/") else parts
        return parts[2] if parts[:2] == ["namespaces", "t"] and len(parts) > 2 else parts[0]

    return [pytest.param(list(group), id=name) for name, group in groupby(sorted(cases, key=resource), key=resource)]


async def play(both: Both, cases: Iterable[Case]) -> None:
    """Ask both servers everything; fail with all that differs."""
    differences: list[str] = []
    for case in cases:
        if case.path.endswith("/finalize"):
            continue
        try:
            await _same(both, case)
        except AssertionError as error:
            differences.append(str(error))
    assert not differences, "\n\n".join(differences)


async def _same(both: Both, case: Case) -> None:
    method, kind = ("PATCH", MERGE) if case.method == "PUT" else ("POST", JSON)
    path = case.path.replace("/namespaces/t/", f"/namespaces/{both.namespace}/")
    body = _renamed(case.body, both.namespace)
    embedded, real = await asyncio.gather(
        *(server.ask(method, path, body, content_type=kind) for server in both.servers)
    )
    title = f"{method} {path} {str(body)[:200]}"
    if embedded.code == real.code == 422:
        embedded, real = unordered(embedded), unordered(real)
    compare(title, embedded, real, ALLOCATED)


def _renamed(value: Any, namespace: str) -> Any:
    """The body with the test's namespace where the case says `t`."""
    if isinstance(value, dict):
        return {
            key: namespace if key == "namespace" and item == "t" else _renamed(item, namespace)
            for key, item in value.items()
        }
    return [_renamed(item, namespace) for item in value] if isinstance(value, list) else value


def unordered(answer: Answer) -> Answer:
    body = normalise(answer.body)
    causes = body.get("details", {}).get("causes", [])
    causes.sort(key=lambda cause: (cause["field"], cause["message"]))
    if len(causes) > 1:
        body["message"] = body["message"].partition(" is invalid:")[0]
    return Answer(answer.code, body, answer.warnings, answer.content_type)
