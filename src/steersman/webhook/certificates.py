"""The webhooks' certificates in a cluster without cert-manager: stored in a Secret, rotated and injected by a replica.

Every replica reads the Secret and uses its certificate; open connections keep their old one. At its start, it checks
that the configurations have the CA bundle. One replica at a time, which holds a Lease, takes the steps of `rotation`.
Every write has the resourceVersion that it was decided on, so that a replica that was suspended changes nothing. Keys
are never part of a log, an Event or a repr.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from steersman.client import AlreadyExists, ApiError, Client, ClientError, Conflict, Forbidden, NotFound
from steersman.models import Dynamic, MergePatch, View, dynamic
from steersman.pki.child_process import call_without_loading_cryptography
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger
from steersman.webhook.certificate_settings import CertificateSettings
from steersman.webhook.certificate_sources import context_of
from steersman.webhook.injection import Configuration, Injector, Targets, all_trust
from steersman.webhook.keystore import REQUEST, CertificateSecretError, Keys, advance, data_of, keys_of, requested
from steersman.webhook.metrics import CERTIFICATE_EXPIRY
from steersman.webhook.rotation import (
    Action,
    Create,
    Observation,
    Publish,
    Renew,
    Resign,
    Restore,
    Retire,
    Wait,
    decide,
)
from steersman.webhook.rotation_lease import RotationLease

__all__ = ["CertificateError", "CertificateManager"]

log = get_logger("webhook")

_SECRET: Final[View[Dynamic]] = dynamic("v1", "Secret")
_TIMEOUT_SECONDS: Final = 10.0
_MAX_START_DELAY_SECONDS: Final = 1.0
_PHASES: Final[Mapping[type, str]] = {
    Create: "create",
    Publish: "publish_ca_bundle",
    Resign: "sign_with_new_ca",
    Retire: "remove_old_ca",
    Renew: "renew_certificate",
    Restore: "restore_secret",
}
"""The steps of a rotation as the log names them."""


class CertificateError(Exception):
    """There is no serving certificate; the message has the reason and what to do."""


class CertificateManager:
    """Certificates that the operator itself creates and rotates: `start`, then `context` per connection, then `close`.

    `client` must be able to write on every replica, not only on the leader.
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
        self._lease_seconds = max(1.0, 3 * settings.poll)
        self._lease = RotationLease(client, settings.namespace, settings.secret, identity, self._lease_seconds)
        self._keys: Keys | None = None
        self._context: ssl.SSLContext | None = None
        # The data of the Secret that was parsed last, and its keys or its error.
        self._parsed: tuple[Any, Keys | None, CertificateSecretError | None] | None = None
        self._task: asyncio.Task[None] | None = None
        # Observations with the loop's time of the first one: `(value, since)`.
        self._stored_since: tuple[str, float] = ("", 0.0)
        self._injected_since: tuple[str, float] | None = None
        self._bundles_checked = False
        self._last_error = ""
        self._has_error = False

    # Methods for the server.

    async def start(self, timeout: float | None = None) -> None:
        """Wait until there is a certificate; create it if this replica holds the Lease. Raises `CertificateError`.

        The default `timeout` is longer than the Lease of a replica that ended before it had created one.
        """
        loop = asyncio.get_running_loop()
        timeout = 60.0 + self._lease_seconds if timeout is None else timeout
        end, problem = loop.time() + timeout, "another replica creates it, and has not finished"
        delay = min(0.2, self._settings.poll)
        while self._keys is None:
            try:
                await self._step()
            except CertificateSecretError as fault:
                raise CertificateError(f"{self._place}: {fault}; delete the Secret to create it again") from None
            except Forbidden as fault:
                raise CertificateError(
                    f"{self._place} cannot be read or created: {fault}. Apply the Role of the manifests, or pass a"
                    " certificate with --webhook-cert-dir"
                ) from None
            except ClientError as fault:
                problem = str(fault)
            if self._keys is None:
                if loop.time() >= end:
                    raise CertificateError(f"{self._place}: there is no certificate after {timeout:g} s: {problem}")
                await asyncio.sleep(delay)
                delay = min(2 * delay, _MAX_START_DELAY_SECONDS)
        self._task = asyncio.create_task(self._run(), name="webhook-certificates")

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for the next connection."""
        if self._context is None:
            raise CertificateError("call start() first")
        return self._context

    @property
    def ca_bundle(self) -> bytes:
        """The certificate authorities for the `caBundle` of configurations; PEM."""
        return self._keys.bundle if self._keys is not None else b""

    @property
    def not_after(self) -> datetime | None:
        """The expiry of the certificate that this replica uses."""
        return self._keys.state.serving.not_after if self._keys is not None else None

    async def close(self) -> None:
        """Stop the rotation and release the Lease."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        try:
            await self._lease.release(self._now())
        except ClientError as problem:
            log.debug("certificate_lease_not_released", error=str(problem))

    # The rotation loop.

    async def _run(self) -> None:
        delay = 0.0
        while True:
            await asyncio.sleep(delay * (0.9 + 0.2 * random.random()))  # noqa: S311 - not for secrets
            try:
                self._has_error = False
                delay = await self._step()
                if not self._has_error:
                    self._last_error = ""
            except (ClientError, CertificateSecretError) as problem:
                self._report_error(f"{type(problem).__name__}: {problem}")
                delay = self._settings.poll
            except Exception:
                log.exception("certificate_rotation_failed")
                delay = self._settings.poll

    async def _step(self) -> float:
        """Read the state, take at most one step, and return the seconds until the next call."""
        ours = await self._acquire_lease()
        # Every replica checks the bundles when it has a certificate: the holder of the Lease may have been killed.
        checks_bundles = ours or (self._keys is not None and not self._bundles_checked)
        # Read the configurations before the Secret: see `injection`.
        configurations, trouble = await self._configurations() if checks_bundles else ([], None)
        secret, kept, damaged = await self._read()
        if damaged is not None and (damaged.foreign or self._keys is None or not ours):
            raise damaged
        if kept is not None:
            self._adopt(kept)
        wrote = False
        if kept is not None and checks_bundles and trouble is None:
            try:
                wrote = await self._injector.inject(configurations, kept.bundle)
                self._bundles_checked = not wrote
            except ApiError as problem:
                trouble = problem
        if trouble is not None:
            self._report_error(f"the CA bundle could not be injected: {trouble}")
        if not ours:
            return min(_MAX_START_DELAY_SECONDS, self._settings.poll) if wrote else self._settings.poll
        action = await self._decide(secret, kept, configurations if trouble is None else None)
        if isinstance(action, Wait):
            return self._until(action, wrote=wrote)
        await self._apply(action, secret, kept)
        return 0.0 if self._keys is not None else _MAX_START_DELAY_SECONDS

    async def _acquire_lease(self) -> bool:
        try:
            return await self._lease.acquire(asyncio.get_running_loop().time(), self._now())
        except ClientError as problem:  # certificates of other replicas can be used all the same
            self._report_error(f"the Lease {self._settings.secret} could not be taken: {problem}")
            return False

    async def _configurations(self) -> tuple[list[Configuration], ClientError | None]:
        try:
            return await self._injector.read(), None
        except ClientError as problem:
            return [], problem

    async def _read(self) -> tuple[Dynamic | None, Keys | None, CertificateSecretError | None]:
        try:
            secret = await self._client.get(
                _SECRET, self._settings.secret, namespace=self._settings.namespace, timeout=_TIMEOUT_SECONDS
            )
        except NotFound:
            return None, None, None
        data = secret.body.get("data")
        if self._parsed is None or self._parsed[0] != data:
            try:
                self._parsed = data, await call_without_loading_cryptography(keys_of, {"data": data}), None
            except CertificateSecretError as problem:
                self._parsed = data, None, problem
        _, keys, damaged = self._parsed
        return secret, keys, damaged

    async def _decide(
        self, secret: Dynamic | None, kept: Keys | None, observation: list[Configuration] | None
    ) -> Action:
        loop_time = asyncio.get_running_loop().time()
        state = kept.state if kept is not None else None
        carried: timedelta | None = None
        if kept is not None and state is not None and state.successor is not None and observation is not None:
            entries = [entry for configuration in observation for entry in configuration.entries]
            others = [entry for entry in entries if entry.bundle != kept.bundle]
            carry = not others or await call_without_loading_cryptography(all_trust, others, state.trusted)
            if not carry:
                self._injected_since = None
            elif self._injected_since is None or self._injected_since[0] != state.successor.id:
                self._injected_since = (state.successor.id, loop_time)
            if self._injected_since is not None:
                carried = timedelta(seconds=loop_time - self._injected_since[1])
        else:
            self._injected_since = None
        if state is not None and self._stored_since[0] != state.authority.id:
            self._stored_since = (state.authority.id, loop_time)
        now = Observation(
            now=self._now(),
            injected_for=carried,
            stored_for=timedelta(seconds=loop_time - self._stored_since[1]),
            requested=secret is not None and requested(secret.body),
            content_known=self._keys is not None,
        )
        return decide(state, now, self._settings.hosts, self._settings.lifetimes)

    def _until(self, action: Wait, *, wrote: bool) -> float:
        if wrote:
            return min(_MAX_START_DELAY_SECONDS, self._settings.poll)
        left = (action.until - self._now()).total_seconds()
        return min(self._settings.poll, max(left, self._settings.poll / 10))

    async def _apply(self, action: Action, secret: Dynamic | None, kept: Keys | None) -> None:
        settings = self._settings
        before = self._keys if isinstance(action, Restore) else kept
        keys = await call_without_loading_cryptography(
            advance,
            before,
            action,
            name=settings.common_name,
            hosts=settings.hosts,
            lifetimes=settings.lifetimes,
            now=self._now(),
        )
        try:
            await self._write(keys, secret, request_accepted=isinstance(action, Publish))
        except (AlreadyExists, Conflict, NotFound):
            return  # another replica was faster; the next call reads its result
        log.info("certificate_rotation_step", phase=_PHASES[type(action)], secret=settings.secret)
        self._parsed = {key: value for key, value in data_of(keys).items() if value is not None}, keys, None
        self._adopt(keys)

    async def _write(self, keys: Keys, secret: Dynamic | None, *, request_accepted: bool) -> None:
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
            await self._client.create(body, kind=_SECRET, timeout=_TIMEOUT_SECONDS)
            return
        metadata: dict[str, Any] = {"resourceVersion": secret.metadata.resource_version}
        if request_accepted:
            metadata["annotations"] = {REQUEST: None}
        patch = MergePatch({"metadata": metadata, "data": data})
        await self._client.patch(
            _SECRET, settings.secret, patch, namespace=settings.namespace, timeout=_TIMEOUT_SECONDS
        )

    def _adopt(self, keys: Keys) -> None:
        if self._keys is None or keys.serving != self._keys.serving:
            self._context = context_of(keys.serving)
            CERTIFICATE_EXPIRY.set(keys.state.serving.not_after.timestamp())
            log.info("serving_certificate_loaded", expires_at=keys.state.serving.not_after.isoformat())
        self._keys = keys

    def _report_error(self, trouble: str) -> None:
        self._has_error = True
        if trouble != self._last_error:  # log each error once
            self._last_error = trouble
            log.warning("certificate_rotation_degraded", error=trouble)

    @property
    def _place(self) -> str:
        return f"Secret {self._settings.namespace}/{self._settings.secret}"
