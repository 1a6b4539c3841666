"""Discovery: the server's version and the kinds that it serves."""

from __future__ import annotations

import msgspec

from steersman.client.core import Verbs
from steersman.client.errors import NotFound
from steersman.client.lists import read_as
from steersman.client.status import Status
from steersman.models import Dynamic, Model, View, dynamic

__all__ = ["ApiResource", "Discovery", "ServerVersion"]


class ServerVersion(Model):
    """The response of `/version`: `git_version` is like `v1.36.2`; `major` and `minor` may have suffixes like `28+`."""

    major: str = ""
    minor: str = ""
    git_version: str = ""
    git_commit: str = ""
    platform: str = ""


class ApiResource(Model):
    """A resource or subresource (`name` with a slash) of a group and version, with the verbs that it supports."""

    name: str
    singular_name: str = ""
    namespaced: bool = False
    group: str = ""
    version: str = ""
    kind: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _ApiResourceList(Model):
    group_version: str = ""
    resources: tuple[ApiResource, ...] = ()


class Discovery(Verbs):
    """The verbs that request information about the server."""

    async def server_version(self) -> ServerVersion:
        """Return the server's version."""
        response = await self.raw.request("GET", "/version")
        return read_as(ServerVersion, response.body, "GET /version")

    async def discover(self, api_version: str) -> tuple[ApiResource, ...]:
        """Return the resources of a group and version (`apps/v1`, `v1`). Raises `NotFound` if it is not served."""
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        response = await self.raw.request("GET", path)
        return read_as(_ApiResourceList, response.body, f"GET {path}").resources

    async def resolve(self, api_version: str, kind: str) -> View[Dynamic]:
        """Return a dynamic view of a kind, with the plural and the scope from the server. Raises `NotFound`."""
        resources = await self.discover(api_version)
        for resource in resources:
            if resource.kind == kind and "/" not in resource.name:
                view = dynamic(api_version, kind, plural=resource.name, namespaced=resource.namespaced)
                status = any(other.name == f"{resource.name}/status" for other in resources)
                info = msgspec.structs.replace(
                    view.info,
                    has_status=status,
                    singular=resource.singular_name or view.info.singular,
                    short_names=resource.short_names,
                    categories=resource.categories,
                )
                return View(info, Dynamic, "dynamic")
        served = ", ".join(sorted({r.kind for r in resources if "/" not in r.name}))
        raise NotFound(
            Status(code=404, reason="NotFound", message=f"{api_version} has no kind {kind!r}, only: {served}"),
            f"discover {api_version}",
        )
