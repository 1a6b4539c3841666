"""Subresources: scale, eviction, ServiceAccount tokens, logs. `patch` writes a status with `subresource="status"`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from steersman.client.core import Verbs, outcome_of
from steersman.client.hooks import WriteOutcome
from steersman.client.line_splitter import LineSplitter
from steersman.client.lists import read_as
from steersman.client.options import Preconditions, delete_options, write_query
from steersman.client.pods import POD, SERVICE_ACCOUNT
from steersman.client.retry import NO_RETRIES
from steersman.models import Key, KindLike, Model, ObjectMeta, encode, view_of

__all__ = ["ScaleState", "Subresources", "Token"]

T = TypeVar("T")

_NO_TIMEOUT_SECONDS = 10 * 365 * 86400.0


class ScaleState(msgspec.Struct, frozen=True, kw_only=True):
    """The scale of an object: desired replicas, current replicas, and the selector of its Pods."""

    replicas: int
    current_replicas: int
    selector: str
    resource_version: str


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A ServiceAccount token. The token itself is not part of the `repr`."""

    token: str
    expires_at: datetime | None

    def __repr__(self) -> str:
        return f"<token that expires at {self.expires_at}>"


class _ScaleSpec(Model):
    replicas: int = 0


class _ScaleStatus(Model):
    replicas: int = 0
    selector: str = ""


class _Scale(Model):
    metadata: ObjectMeta = ObjectMeta()
    spec: _ScaleSpec = _ScaleSpec()
    status: _ScaleStatus = _ScaleStatus()


class _TokenStatus(Model):
    token: str = ""
    expiration_timestamp: datetime | None = None


class _TokenRequest(Model):
    status: _TokenStatus = _TokenStatus()


class Subresources(Verbs):
    """The verbs of subresources that are single requests."""

    async def get_scale(self, kind: KindLike[Any], name: str, *, namespace: str | None = None) -> ScaleState:
        """Read the scale of an object. Raises `NotFound`, also if the kind has no scale subresource."""
        info = view_of(kind).info
        path = info.path(self.namespace_for(info, namespace), name, "scale")
        response = await self.raw.request("GET", path)
        return _scale(response.body, f"GET {path}")

    async def set_scale(
        self,
        kind: KindLike[Any],
        name: str,
        replicas: int,
        *,
        namespace: str | None = None,
        resource_version: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
    ) -> ScaleState:
        """Set the number of replicas. Raises `Conflict` if the object's version is not `resource_version` any more."""
        info = view_of(kind).info
        key = Key(self.namespace_for(info, namespace), name)
        path = info.path(key.namespace, name, "scale")
        body: dict[str, Any] = {"spec": {"replicas": replicas}}
        if resource_version:
            body["metadata"] = {"resourceVersion": resource_version}
        ended = self.announce(info, key, "patch", dry_run=dry_run)
        outcome: WriteOutcome | None = None
        try:
            response = await self.raw.request(
                "PATCH",
                path,
                query=write_query(dry_run=dry_run, field_manager=field_manager or self.field_manager),
                body=encode(body),
                content_type="application/merge-patch+json",
            )
            outcome = outcome_of(response.body)
        finally:
            self.report(ended, outcome)
        return _scale(response.body, f"PATCH {path}")

    async def evict(
        self,
        name: str,
        *,
        namespace: str | None = None,
        grace_period: int | None = None,
        preconditions: Preconditions | None = None,
        dry_run: bool = False,
    ) -> None:
        """Evict a Pod through the API, which respects PodDisruptionBudgets.

        Raises `TooManyRequests` if a budget does not allow the eviction now, with `retry_after`; it is not retried
        here, because that may take hours. Raises `NotFound` if the Pod does not exist.
        """
        where = self.namespace_for(POD, namespace)
        body: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": where},
        }
        options = delete_options(grace_period=grace_period, preconditions=preconditions, dry_run=dry_run)
        if options:
            body["deleteOptions"] = options
        await self.raw.request(
            "POST",
            f"{POD.path(where, name)}/eviction",
            query=write_query(dry_run=dry_run),
            body=encode(body),
            retries=NO_RETRIES,
        )

    async def create_token(
        self,
        service_account: str,
        *,
        namespace: str | None = None,
        audiences: tuple[str, ...] = (),
        expires_in: int = 3600,
        bound_to: tuple[str, str, str] | None = None,
    ) -> Token:
        """Create a token of a ServiceAccount (TokenRequest API) that is valid for `expires_in` seconds, at least 600.

        `bound_to` is the kind (Pod, Secret or Node), name and uid of an object whose deletion invalidates the token.
        """
        spec: dict[str, Any] = {"audiences": list(audiences), "expirationSeconds": expires_in}
        if bound_to is not None:
            kind, name, uid = bound_to
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}
        path = f"{SERVICE_ACCOUNT.path(self.namespace_for(SERVICE_ACCOUNT, namespace), service_account)}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        # A retry is safe: a token that was not received is not used.
        response = await self.raw.request("POST", path, body=encode(body), idempotent=True)
        status = read_as(_TokenRequest, response.body, f"POST {path}").status
        return Token(token=status.token, expires_at=status.expiration_timestamp)

    async def logs(
        self,
        name: str,
        *,
        namespace: str | None = None,
        container: str | None = None,
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        since_seconds: int | None = None,
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
        idle_timeout: float | None = None,
    ) -> AsyncGenerator[bytes, None]:
        r"""Yield the lines of a container's log as bytes without `\n`; with `follow`, also later lines.

        Empty lines are left out. `container` is required if the Pod has several. Without `idle_timeout` (seconds) the
        log may be silent for any time. Raises `BadRequest` if the container has not started.
        """
        query = {
            name: value
            for name, value in (
                ("container", container),
                ("follow", "true" if follow else None),
                ("previous", "true" if previous else None),
                ("timestamps", "true" if timestamps else None),
                ("sinceSeconds", since_seconds),
                ("tailLines", tail_lines),
                ("limitBytes", limit_bytes),
            )
            if value is not None
        }
        path = f"{POD.path(self.namespace_for(POD, namespace), name)}/log"
        lines = LineSplitter()
        async with self.raw.stream(
            "GET",
            path,
            query={key: str(value) for key, value in query.items()},
            accept="*/*",
            idle_timeout=idle_timeout if idle_timeout is not None else _NO_TIMEOUT_SECONDS,
        ) as response:
            async for chunk in response.chunks:
                for line in lines.feed(chunk):
                    yield line
        if rest := lines.rest():
            yield rest


def _scale(body: bytes, request: str) -> ScaleState:
    scale = read_as(_Scale, body, request)
    return ScaleState(
        replicas=scale.spec.replicas,
        current_replicas=scale.status.replicas,
        selector=scale.status.selector,
        resource_version=scale.metadata.resource_version,
    )
