"""Registers the webhooks of a process outside of the cluster: configurations with a URL, while the process runs.

They are limited to the namespaces of the run, so that other users' writes do not wait for a developer's machine, and
are removed at the end, together with the conversions of CRDs. Configurations that a killed run of the same machine left
are removed first: with `failurePolicy: Fail` they would refuse other users' writes. Deployed operators are registered
by their manifests, not here.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from steersman.client import ApiError, Client, Conflict, NotFound
from steersman.client.options import Preconditions
from steersman.models import Dynamic, ResourceInfo, View, dynamic, parse_labels
from steersman.telemetry.log import get_logger
from steersman.webhook.configuration import API_VERSION, ClientConfig, WebhookRule, configurations
from steersman.webhook.local_conversion import restore, set_for_local_run
from steersman.webhook.reachability import LABEL as PROBE
from steersman.webhook.reachability import (
    probe_webhook,
    wait_until_called,
    wait_until_not_called,
    without_probe_objects,
)

__all__ = ["HOST", "LABEL", "Registration", "narrowed"]

log = get_logger("webhook")

LABEL: Final = "steersman.dev/local-run"
"""The label of configurations of runs outside of a cluster; its value is the operator's name."""
HOST: Final = "steersman.dev/host"
"""The annotation with the machine of such a run."""

_KINDS: Final = tuple(
    dynamic(API_VERSION, kind, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class _Declared(Protocol):
    @property
    def purpose(self) -> str:
        """The kind of webhook."""
        ...

    @property
    def kind(self) -> View[Any]:
        """The kind of the objects."""
        ...


class Declares(Protocol):
    """The attributes of an operator that a registration uses."""

    @property
    def name(self) -> str:
        """The operator's name."""
        ...

    @property
    def webhook_rules(self) -> tuple[WebhookRule, ...]:
        """The admission webhooks."""
        ...

    @property
    def webhooks(self) -> Sequence[_Declared]:
        """All declared webhooks."""
        ...


class Registration:
    """The configurations of one run: `add`, then `remove`.

    Both can be called again. They raise errors of `Client`; a missing CRD is logged and skipped.
    """

    def __init__(
        self,
        client: Client,
        operator: Declares,
        url: str,
        ca_bundle: bytes,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: str | None = None,
        host: str | None = None,
    ) -> None:
        self._client = client
        self._operator = operator
        self._config = ClientConfig(url=url, ca_bundle=ca_bundle)
        self._namespaces = tuple(namespaces)
        self._selector = namespace_selector
        self._host = socket.gethostname() if host is None else host
        # Two runs can work at the same time in different namespaces, each with a URL of its own.
        self._digest = hashlib.sha256(f"{self._host} {url}".encode()).hexdigest()[:8]
        self._name = f"{operator.name}-local-{self._digest}"
        self._added: list[tuple[View[Dynamic], str, str]] = []
        self._conversions: set[str] = set()
        self._verified_namespace = ""

    @property
    def documents(self) -> list[dict[str, Any]]:
        """The configurations that `add` applies."""
        made = configurations(
            self._operator.webhook_rules,
            name=self._name,
            client_config=self._config,
            labels={LABEL: self._operator.name},
            annotations={HOST: self._host},
        )
        for document in made:
            for webhook in document["webhooks"]:
                selector = narrowed(webhook.get("namespaceSelector"), self._namespaces, self._selector)
                if selector:
                    webhook["namespaceSelector"] = selector
                if "configmaps" in webhook["rules"][0]["resources"]:
                    webhook["objectSelector"] = without_probe_objects(webhook.get("objectSelector"))
            document["webhooks"].append(probe_webhook(f"{self._digest}.{document['kind'][0].lower()}", self._config))
        return made

    async def add(self) -> None:
        """Register the webhooks. The API server may call them only after a moment."""
        await self._clear()
        for document in self.documents:
            view = next(view for view in _KINDS if view.info.kind == document["kind"])
            live = await self._client.apply(Dynamic(document), kind=view, force=True)
            self._added.append((view, live.metadata.name, live.metadata.uid))
            log.info("webhooks_registered", configuration=live.metadata.name, url=self._config.url)
        for info in self._converted():
            await self._convert(f"{info.plural}.{info.group}")

    async def wait_until_called(self, namespace: str) -> bool:
        """Wait until the API server calls the webhooks; return False if that cannot be checked.

        `namespace` is one in which the user may create ConfigMaps, as a dry run. Raises `WebhookUnreachableError` with
        the reason.
        """
        proved = await wait_until_called(self._client, namespace, [_value(document) for document in self.documents])
        self._verified_namespace = namespace if proved else ""
        return proved

    async def remove(self) -> bool:
        """Remove the configurations of `add`; return whether the API server certainly calls the webhooks no more.

        If it is not certain, the server should run for a moment longer.
        """
        problem: ApiError | None = None
        while self._added:
            view, name, uid = self._added.pop()
            try:
                with suppress(Conflict):  # another run has created it again
                    await self._client.delete(view, name, preconditions=Preconditions(uid=uid), missing_ok=True)
            except ApiError as refused:
                problem = refused
        for name in sorted(self._conversions):
            try:
                await restore(self._client, name, self._config.at("/convert")["url"], self._is_abandoned)
            except ApiError as refused:
                problem = refused
        self._conversions.clear()
        if problem is not None:
            raise problem
        namespace, self._verified_namespace = self._verified_namespace, ""
        if not namespace:
            return False
        return await wait_until_not_called(self._client, namespace, [_value(document) for document in self.documents])

    # Configurations of killed runs.

    async def _clear(self) -> None:
        for view in _KINDS:
            for left in (await self._client.list(view, labels={LABEL: self._operator.name})).items:
                mine = left.metadata.name.startswith(f"{self._name}-")
                if not mine and left.metadata.annotations.get(HOST) == self._host and await _abandoned(left):
                    log.info("abandoned_webhooks_removed", configuration=left.metadata.name)
                    await self._client.delete(view, left.metadata.name, missing_ok=True)

    # Conversions.

    def _converted(self) -> Iterator[ResourceInfo]:
        kinds = {w.kind.info.plural: w.kind.info for w in self._operator.webhooks if w.purpose == "converter"}
        yield from kinds.values()

    async def _convert(self, name: str) -> None:
        wanted = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": self._config.at("/convert"), "conversionReviewVersions": ["v1"]},
        }
        try:
            await set_for_local_run(self._client, name, wanted, self._host, self._is_abandoned)
        except NotFound:
            log.warning("conversion_crd_missing", crd=name)
        else:
            self._conversions.add(name)
            log.info("conversion_registered", crd=name, url=self._config.url)

    async def _is_abandoned(self, url: str, host: str) -> bool:
        return host == self._host and await _refuses(url)


def narrowed(selector: Any, namespaces: Sequence[str], labels: str | None) -> dict[str, Any] | None:
    """Return a namespace selector that also requires one of the `namespaces` and the `labels` of a run."""
    more: list[dict[str, Any]] = []
    if namespaces:
        more.append({"key": "kubernetes.io/metadata.name", "operator": "In", "values": sorted(namespaces)})
    for rule in parse_labels(labels) if labels else ():
        expression: dict[str, Any] = {"key": rule.key, "operator": str(rule.operator)}
        if rule.values:
            expression["values"] = list(rule.values)
        more.append(expression)
    if not more:
        return selector
    before = dict(selector or {})
    return {**before, "matchExpressions": [*(before.get("matchExpressions") or ()), *more]}


def _value(document: dict[str, Any]) -> str:
    return str(document["webhooks"][-1]["objectSelector"]["matchLabels"][PROBE])


def _url(webhook: Any) -> str:
    config = webhook.get("clientConfig") if webhook else None
    return str(config.get("url") or "") if config else ""


async def _abandoned(configuration: Dynamic) -> bool:
    """Return whether all URLs of a configuration are ports of this machine without a server."""
    urls = [_url(webhook) for webhook in configuration.get("webhooks") or ()]
    return all([await _refuses(url) for url in urls])


async def _refuses(url: str) -> bool:
    """Return whether the URL is a port of this machine without a server."""
    parts = urlsplit(url)
    if parts.hostname not in _LOOPBACK or parts.port is None:
        return False
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(parts.hostname, parts.port), 1.0)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False
