"""The webhooks' certificates in a cluster, without cert-manager: kept in a Secret, rotated, injected by any replica.

Every replica reads the Secret and shows what it finds; connections that are open live on with what they were opened
with. One replica at a time, under a Lease, takes the steps of `rotation`; every write names the version that it was
decided on, so that a replica which slept through its turn changes nothing. Keys never reach a log, an Event or a repr.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, cast

from steersman.client import AlreadyExists, ApiError, Client, ClientError, Conflict, Forbidden, NotFound
from steersman.models import Dynamic, MergePatch, View, dynamic
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger
from steersman.telemetry.metrics import gauge
from steersman.webhook.certsettings import CertificateSettings
from steersman.webhook.injection import Configuration, Injector, Targets
from steersman.webhook.keystore import REQUEST, Keys, StoreError, advance, data_of, keys_of, requested
from steersman.webhook.lease import Turn
from steersman.webhook.rotation import Action, Publish, Restore, Seen, Wait, decide
from steersman.webhook.serving import context_of

__all__ = ["CertificateError", "SelfManaged"]

log = get_logger("webhook")

_SECRET: Final[View[Dynamic]] = dynamic("v1", "Secret")
_TIMEOUT: Final = 10.0
_SOON: Final = 1.0
_EXPIRY = gauge(
    "steersman_webhook_certificate_expiry_timestamp_seconds",
    "Until when the certificate that this replica shows is valid",
)


class CertificateError(Exception):
    """There is no certificate to serve with; says why, and what to do."""


class SelfManaged:
    """Certificates that look after themselves: `start`, then `context` per connection, then `close`.

    `client` must be one that writes on every replica, leading or not.
    """

    def __init__(
        self,
        client: Client,
        settings: CertificateSettings,
        targets: Targets,
        *,
        identity: str = "",
        now: Now = utc_now,
    ) -> None:
        self._client = client
        self._settings = settings
        self._injector = Injector(client, targets)
        self._now = now
        identity = identity or f"{socket.gethostname()}_{os.urandom(6).hex()}"
        self._turn_lasts = max(1.0, 3 * settings.poll)
        self._turn = Turn(client, settings.namespace, settings.secret, identity, self._turn_lasts)
        self._keys: Keys | None = None
        self._context: ssl.SSLContext | None = None
        self._task: asyncio.Task[None] | None = None
        # What was seen, and since when by the loop's clock: `(what, since)`.
        self._held: tuple[str, float] = ("", 0.0)
        self._carried: tuple[str, float] | None = None
        self._trouble = ""
        self._troubled = False

    # What the server uses.

    async def start(self, timeout: float | None = None) -> None:
        """Wait until there is a certificate, making one where that is our turn. Raises `CertificateError`.

        Without a `timeout` it waits longer than the turn of a replica that died before it had made one.
        """
        loop = asyncio.get_running_loop()
        timeout = 60.0 + self._turn_lasts if timeout is None else timeout
        end, problem = loop.time() + timeout, "another replica is making it, and has not finished"
        delay = min(0.2, self._settings.poll)
        while self._keys is None:
            try:
                await self._look()
            except StoreError as fault:
                raise CertificateError(f"{self._place}: {fault}; delete it to have it made anew") from None
            except Forbidden as fault:
                raise CertificateError(
                    f"{self._place} cannot be read or made: {fault}. Apply the manifests' Role for it, or give the"
                    " certificate with --webhook-cert-dir"
                ) from None
            except ClientError as fault:
                problem = str(fault)
            if self._keys is None:
                if loop.time() >= end:
                    raise CertificateError(f"{self._place}: there is no certificate after {timeout:g} s: {problem}")
                await asyncio.sleep(delay)
                delay = min(2 * delay, _SOON)
        self._task = asyncio.create_task(self._run(), name="webhook-certificates")

    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        if self._context is None:
            raise CertificateError("start() comes first")
        return self._context

    @property
    def ca_bundle(self) -> bytes:
        """The authorities that configurations are to carry now; PEM."""
        return self._keys.bundle if self._keys is not None else b""

    @property
    def not_after(self) -> datetime | None:
        """Until when the certificate that is shown is valid."""
        return self._keys.held.shown.not_after if self._keys is not None else None

    async def close(self) -> None:
        """Look after nothing any more; somebody else's turn begins at once."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        try:
            await self._turn.release(self._now())
        except ClientError as problem:
            log.debug("the turn for certificates was not given back", error=str(problem))

    # The loop.

    async def _run(self) -> None:
        delay = 0.0
        while True:
            await asyncio.sleep(delay * (0.9 + 0.2 * random.random()))  # noqa: S311 - not for secrets
            try:
                self._troubled = False
                delay = await self._look()
                if not self._troubled:
                    self._trouble = ""
            except (ClientError, StoreError) as problem:
                self._complain(f"{type(problem).__name__}: {problem}")
                delay = self._settings.poll
            except Exception:
                log.exception("looking after the webhooks' certificates failed")
                delay = self._settings.poll

    async def _look(self) -> float:
        """One look, and one step where there is one to take; returns the seconds until the next look."""
        ours = await self._take_turn()
        # Configurations before the Secret: see `injection`.
        configurations, trouble = await self._configurations() if ours else ([], None)
        secret, kept, damaged = await self._read()
        if damaged is not None and (damaged.foreign or self._keys is None or not ours):
            raise damaged
        if kept is not None:
            self._adopt(kept)
        if not ours:
            return self._settings.poll
        wrote = False
        if kept is not None and trouble is None:
            try:
                wrote = await self._injector.inject(configurations, kept.bundle)
            except ApiError as problem:
                trouble = problem
        if trouble is not None:
            self._complain(f"the CA bundle could not be injected: {trouble}")
        action = self._decide(secret, kept, configurations if trouble is None else None)
        if isinstance(action, Wait):
            return self._until(action, wrote)
        await self._take(action, secret, kept)
        return 0.0 if self._keys is not None else _SOON

    async def _take_turn(self) -> bool:
        try:
            return await self._turn.take(asyncio.get_running_loop().time(), self._now())
        except ClientError as problem:  # what others have written can be read all the same
            self._complain(f"the Lease {self._settings.secret} could not be taken: {problem}")
            return False

    async def _configurations(self) -> tuple[list[Configuration], ClientError | None]:
        try:
            return await self._injector.read(), None
        except ClientError as problem:
            return [], problem

    async def _read(self) -> tuple[Dynamic | None, Keys | None, StoreError | None]:
        try:
            secret = await self._client.get(
                _SECRET, self._settings.secret, namespace=self._settings.namespace, timeout=_TIMEOUT
            )
        except NotFound:
            return None, None, None
        try:
            return secret, keys_of(secret.body), None
        except StoreError as problem:
            return secret, None, problem

    def _decide(self, secret: Dynamic | None, kept: Keys | None, seen: list[Configuration] | None) -> Action:
        loop_time = asyncio.get_running_loop().time()
        held = kept.held if kept is not None else None
        carried: timedelta | None = None
        if held is not None and held.successor is not None and seen is not None:
            carry = all(
                entry.bundle == cast(Keys, kept).bundle or entry.trusts() >= held.trusted
                for configuration in seen
                for entry in configuration.entries
            )
            if not carry:
                self._carried = None
            elif self._carried is None or self._carried[0] != held.successor.id:
                self._carried = (held.successor.id, loop_time)
            if self._carried is not None:
                carried = timedelta(seconds=loop_time - self._carried[1])
        else:
            self._carried = None
        if held is not None and self._held[0] != held.authority.id:
            self._held = (held.authority.id, loop_time)
        now = Seen(
            now=self._now(),
            carried_for=carried,
            held_for=timedelta(seconds=loop_time - self._held[1]),
            requested=secret is not None and requested(secret.body),
            remembered=self._keys is not None,
        )
        return decide(held, now, self._settings.hosts, self._settings.terms)

    def _until(self, action: Wait, wrote: bool) -> float:
        if wrote:
            return min(_SOON, self._settings.poll)
        left = (action.until - self._now()).total_seconds()
        return min(self._settings.poll, max(left, self._settings.poll / 10))

    async def _take(self, action: Action, secret: Dynamic | None, kept: Keys | None) -> None:
        settings = self._settings
        before = self._keys if isinstance(action, Restore) else kept
        keys = advance(
            before, action, name=settings.common_name, hosts=settings.hosts, terms=settings.terms, now=self._now()
        )
        try:
            await self._write(keys, secret, taken_up=isinstance(action, Publish))
        except (AlreadyExists, Conflict, NotFound):
            return  # somebody else was faster; the next look says what there is
        log.info("the webhooks' certificates took a step", step=type(action).__name__.lower(), secret=settings.secret)
        self._adopt(keys)

    async def _write(self, keys: Keys, secret: Dynamic | None, *, taken_up: bool) -> None:
        settings, data = self._settings, data_of(keys)
        if secret is None:
            body: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/tls",
                "metadata": {
                    "name": settings.secret,
                    "namespace": settings.namespace,
                    "labels": {"app.kubernetes.io/managed-by": "steersman"},
                },
                "data": {key: value for key, value in data.items() if value is not None},
            }
            await self._client.create(body, kind=_SECRET, timeout=_TIMEOUT)
            return
        metadata: dict[str, Any] = {"resourceVersion": secret.metadata.resource_version}
        if taken_up:
            metadata["annotations"] = {REQUEST: None}
        patch = MergePatch({"metadata": metadata, "data": data})
        await self._client.patch(_SECRET, settings.secret, patch, namespace=settings.namespace, timeout=_TIMEOUT)

    def _adopt(self, keys: Keys) -> None:
        if self._keys is None or keys.serving != self._keys.serving:
            self._context = context_of(keys.serving)
            _EXPIRY.set(keys.held.shown.not_after.timestamp())
            log.info("the webhook server has a new certificate", until=keys.held.shown.not_after.isoformat())
        self._keys = keys

    def _complain(self, trouble: str) -> None:
        self._troubled = True
        if trouble != self._trouble:  # once, not at every look
            self._trouble = trouble
            log.warning("the webhooks' certificates need attention", problem=trouble)

    @property
    def _place(self) -> str:
        return f"Secret {self._settings.namespace}/{self._settings.secret}"
