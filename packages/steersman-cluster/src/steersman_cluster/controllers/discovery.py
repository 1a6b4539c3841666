"""The kinds that the server serves, custom ones included, for garbage collection and namespaces.

One answer is kept for a while, and thrown away when a CustomResourceDefinition changes.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from steersman.client import ApiError, ApiResource, Client
from steersman.models import Model, PartialObjectMetadata, View, decode, dynamic
from steersman.telemetry.log import get_logger

__all__ = ["Served", "served_kinds"]

log = get_logger("controllers")


class Served(NamedTuple):
    """A kind in the version that the server prefers, by its metadata alone."""

    view: View[PartialObjectMetadata]
    verbs: frozenset[str]

    @property
    def group_resource(self) -> tuple[str, str]:
        """The API group and the plural name."""
        return self.view.info.group, self.view.info.plural


class _Version(Model):
    group_version: str = ""


class _Group(Model):
    name: str = ""
    preferred_version: _Version = _Version()
    versions: tuple[_Version, ...] = ()


class _Groups(Model):
    groups: tuple[_Group, ...] = ()


async def served_kinds(client: Client) -> tuple[list[Served], list[str]]:
    """Return all kinds once, in preferred versions where they have them, and the group versions with failures."""
    response = await client.raw.request("GET", "/apis")
    versions = ["v1"]
    for group in decode(_Groups, response.body).groups:
        preferred = group.preferred_version.group_version
        versions += [preferred, *(v.group_version for v in group.versions if v.group_version != preferred)]
    answers = await asyncio.gather(*(client.discover(version) for version in versions), return_exceptions=True)
    found: dict[tuple[str, str], Served] = {}
    failed: list[str] = []
    for version, answer in zip(versions, answers, strict=True):
        if isinstance(answer, ApiError):
            failed.append(version)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            for resource in answer:
                if "/" in resource.name:
                    continue
                try:
                    served = _served(version, resource)
                except TypeError as problem:  # an aggregated server's: one bad kind must not stop all others
                    log.warning("kind_not_usable", group_version=version, resource=resource.name, problem=str(problem))
                    failed.append(version)
                    continue
                found.setdefault(served.group_resource, served)
    return list(found.values()), failed


def _served(version: str, resource: ApiResource) -> Served:
    view = dynamic(version, resource.kind, plural=resource.name, namespaced=resource.namespaced)
    return Served(View(view.info, PartialObjectMetadata, "metadata"), frozenset(resource.verbs))
