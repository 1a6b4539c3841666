"""Access to the fields of Pods that the Pod Security Standards check, and texts for the findings. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import cast

from steersman_cluster.objects import Object

__all__ = [
    "all_containers",
    "bad_profiles",
    "container_names",
    "containers",
    "counted",
    "pod_context",
    "quoted",
    "setters",
]


def all_containers(spec: Object) -> Iterator[Object]:
    """Every container of a Pod, init containers first."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from cast("Sequence[Object]", spec.get(field) or ())


def containers(spec: Object) -> Iterator[tuple[str, Object]]:
    """Name and security context of every container."""
    for container in all_containers(spec):
        yield container.get("name") or "", container.get("securityContext") or {}


def pod_context(spec: Object) -> Object:
    """Return `spec.securityContext`, which applies to all containers that do not override it."""
    return spec.get("securityContext") or {}


def quoted(items: Sequence[str]) -> str:
    """Format items as in the API server's messages: `"a", "b"`."""
    return ", ".join(f'"{item}"' for item in items)


def counted(word: str, items: Collection[str]) -> str:
    """Return the word, in the plural unless there is one item."""
    return word if len(items) == 1 else f"{word}s"


def container_names(names: Sequence[str]) -> str:
    """Format names as in the API server's messages: `containers "a", "b"`."""
    return f"{counted('container', names)} {quoted(names)}"


def setters(names: Sequence[str], *, pod: bool) -> list[str]:
    """The holders of a forbidden field: the Pod, or some of its containers."""
    return [*(["pod"] if pod else []), *([container_names(names)] if names else [])]


def bad_profiles(spec: Object, field: str, allowed: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the holders of profiles with forbidden types, and those types."""

    def bad(context: Object) -> str | None:
        profile: Object | None = context.get(field)
        kind = (profile.get("type") or "") if profile is not None else None
        return None if kind is None or kind in allowed else kind

    pod = bad(pod_context(spec))
    found = [(name, kind) for name, context in containers(spec) if (kind := bad(context)) is not None]
    kinds = {kind for _, kind in found}
    if pod is not None:
        kinds.add(pod)
    return setters([name for name, _ in found], pod=pod is not None), sorted(kinds)
