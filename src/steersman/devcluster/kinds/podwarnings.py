"""Warnings about Pods and templates that are taken but seldom meant: duplicates, deprecated fields, odd amounts.

They go out as `Warning` headers and refuse nothing. Follows pkg/api/pod/warnings.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steersman.devcluster.objects import Object, Path

__all__ = ["spec_warnings", "template_warnings"]


def template_warnings(path: Path, template: Object | None, old: Object | None = None) -> Sequence[str]:
    """Of a template at a path; of a changed one only what is new."""
    if not template:
        return ()
    return spec_warnings(path / "spec", template.get("spec") or {}, path / "metadata", template.get("metadata") or {})


def spec_warnings(path: Path, spec: Object, meta_path: Path, metadata: Object) -> Sequence[str]:
    """Of a Pod's spec and metadata."""
    return list(_all(path, spec, meta_path, metadata))


def _all(path: Path, spec: Object, meta_path: Path, metadata: Object) -> Iterator[str]:
    yield from ()
