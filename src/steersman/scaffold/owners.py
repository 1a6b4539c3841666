"""Which generated files are of one resource alone: those that would not be there without it."""

from __future__ import annotations

from steersman.scaffold.project import Project, Resource
from steersman.scaffold.render import render

__all__ = ["files_of"]


def files_of(project: Project, resource: Resource) -> set[str]:
    """Their paths."""
    return render(project).keys() - render(project.without_resource(resource)).keys()
