"""Sub-resources: scale, eviction, ServiceAccount tokens, logs. Status is a patch with `subresource="status"`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from steersman.client.core import Verbs, outcome_of
from steersman.client.frames import Lines
from steersman.client.hooks import WriteOutcome
from steersman.client.lists import read_as
from steersman.client.options import Preconditions, delete_options, write_query
from steersman.client.pods import POD, SERVICE_ACCOUNT
from steersman.client.retry import NO_RETRIES
from steersman.models import Key, KindLike, Model, ObjectMeta, encode, view_of

__all__ = ["ScaleState", "Subresources", "Token"]

T = TypeVar("T")

_FOR_EVER = 10 * 365 * 86400.0


class ScaleState(msgspec.Struct, frozen=True, kw_only=True):
    """The scale of an object: how many replicas it should have, how many it has, and how its Pods are found."""

    replicas: int
    current_replicas: int
    selector: str
    resource_version: str


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A ServiceAccount's token. The token itself is left out of the `repr`."""

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
    """The verbs of sub-resources that are plain requests."""

    async def get_scale(self, kind: KindLike[Any], name: str, *, namespace: str | None = None) -> ScaleState:
        """Read the scale of an object. Raises `NotFound` also where the kind has no scale sub-resource."""
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
        """Set the number of replicas; `Conflict` when `resource_version` is given and is not the object's any more."""
        info = view_of(kind).info
        key = Key(self.namespace_for(info, namespace), name)
        path = info.path(key.namespace, name, "scale")
        body: dict[str, Any] = {"spec": {"replicas": replicas}}
        if resource_version:
            body["metadata"] = {"resourceVersion": resource_version}
        ended = self.announce(info, key, "patch", dry_run)
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
        """Evict a Pod by the API, which respects PodDisruptionBudgets.

        Raises `TooManyRequests` when a budget does not allow it now: `retry_after` says when to ask again, and nothing
        here does so by itself, since that may take hours. Raises `NotFound` when the Pod is gone.
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
        """A fresh token of a ServiceAccount (TokenRequest API), valid for `expires_in` seconds, 600 at least.

        `bound_to` is the kind (Pod, Secret or Node), name and uid of an object with which the token ends.
        """
        spec: dict[str, Any] = {"audiences": list(audiences), "expirationSeconds": expires_in}
        if bound_to is not None:
            kind, name, uid = bound_to
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}
        path = f"{SERVICE_ACCOUNT.path(self.namespace_for(SERVICE_ACCOUNT, namespace), service_account)}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        # Asking twice harms nobody: a token that was never received is never used.
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
        """The lines of a container's log as bytes, without their `\\n`; with `follow`, as they are written.

        Lines that are empty are left out. `container` is needed where the Pod has several. Silence is no error unless
        `idle_timeout` seconds are given. Raises `BadRequest` while the container has not started.
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
        lines = Lines()
        async with self.raw.stream(
            "GET",
            path,
            query={key: str(value) for key, value in query.items()},
            accept="*/*",
            idle_timeout=idle_timeout if idle_timeout is not None else _FOR_EVER,
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
