"""One request to a handler: everything that it may want to know, and nothing of HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steersman_cluster.api.messages import Request
from steersman_cluster.api.resources import ResourceType
from steersman_cluster.objects import Object
from steersman_cluster.strategy import Reader, User, WriteContext

if TYPE_CHECKING:
    from steersman_cluster.api.server import APIServer

__all__ = ["Call"]


@dataclass(slots=True)
class Call:
    """What a sub-resource or a review is asked."""

    server: APIServer
    request: Request
    user: User
    resource: ResourceType
    verb: str
    namespace: str
    name: str
    subresource: str
    body: Object | None
    options: Mapping[str, str]
    dry_run: bool
    reader: Reader
    context: WriteContext
    rest: str = ""
    warnings: list[str] = field(default_factory=list[str])
