"""Injects the CA bundle into webhook configurations and into conversions of CRDs.

Only entries for the operator's own Service are changed, and only if they differ. A configuration is read before the
Secret and patched at the resourceVersion that was read, so a replica that was suspended in between cannot replace a
newer bundle with an older one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from steersman.client import ApiError, Client, Conflict, NotFound
from steersman.models import Dynamic, JsonPatch, View, dynamic
from steersman.pki import b64
from steersman.pki.certificate_facts import fingerprint, split
from steersman.telemetry.log import get_logger

__all__ = ["INJECT", "Configuration", "Entry", "Injector", "Targets", "all_trust", "entries", "patch_of"]

log = get_logger("webhook")

INJECT: Final = "steersman.dev/inject-ca"
"""A label whose value is the Secret's name: configurations of any name with this label are injected, too."""

_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_MUTATING: Final = dynamic(_ADMISSION, "MutatingWebhookConfiguration", namespaced=False)
_VALIDATING: Final = dynamic(_ADMISSION, "ValidatingWebhookConfiguration", namespaced=False)
_CRD: Final = dynamic("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)
_TIMEOUT_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Targets:
    """The names of the objects that get the CA bundle. Objects that do not exist are skipped."""

    service: tuple[str, str]
    """Namespace and name of the Service; entries for other Services are not changed."""
    mutating: tuple[str, ...] = ()
    validating: tuple[str, ...] = ()
    crds: tuple[str, ...] = ()
    labelled: str = ""
    """Also objects whose label `steersman.dev/inject-ca` has this value; this needs permission to list."""

    def named(self) -> Iterator[tuple[View[Dynamic], str]]:
        """Yield the kind and name of each named object."""
        for view, names in ((_MUTATING, self.mutating), (_VALIDATING, self.validating), (_CRD, self.crds)):
            for name in names:
                yield view, name


@dataclass(frozen=True, slots=True)
class Entry:
    """One `clientConfig` for the operator's Service: its JSON pointer and its CA bundle."""

    pointer: str
    bundle: bytes | None
    """`None` if the bundle is missing or not readable."""

    def trusts(self) -> frozenset[str]:
        """Return the fingerprints of the authorities in the bundle."""
        try:
            return frozenset(fingerprint(pem) for pem in split(self.bundle or b""))
        except ValueError:
            return frozenset()


@dataclass(frozen=True, slots=True)
class Configuration:
    """An object with such entries, as it was read."""

    view: View[Dynamic]
    name: str
    version: str
    entries: tuple[Entry, ...]


def entries(body: Mapping[str, Any], service: tuple[str, str]) -> Iterator[Entry]:
    """Yield the entries of a configuration or CRD for the Service; invalid bodies have none."""
    webhooks = body.get("webhooks")
    if isinstance(webhooks, list):
        for index, webhook in enumerate(cast("list[Any]", webhooks)):
            config = _at(webhook, "clientConfig")
            if _leads_to(config, service):
                yield Entry(f"/webhooks/{index}/clientConfig", _bundle(config))
    config = _at(body, "spec", "conversion", "webhook", "clientConfig")
    if _leads_to(config, service):
        yield Entry("/spec/conversion/webhook/clientConfig", _bundle(config))


def all_trust(found: Iterable[Entry], authorities: frozenset[str]) -> bool:
    """Return whether the bundle of each entry has all authorities, which are fingerprints."""
    return all(entry.trusts() >= authorities for entry in found)


def patch_of(found: Configuration, bundle: bytes) -> JsonPatch | None:
    """Return the patch that sets the bundle of every entry at the version that was read; `None` if nothing differs."""
    stale = [entry for entry in found.entries if entry.bundle != bundle]
    if not stale:
        return None
    # The version causes a conflict if the object has changed, because indexes may have changed too.
    patch = JsonPatch().replace("/metadata/resourceVersion", found.version)
    for entry in stale:
        patch = patch.add(f"{entry.pointer}/caBundle", b64(bundle))
    return patch


class Injector:
    """Reads and patches the target objects. Raises errors of `Client`, except for deleted or changed objects."""

    def __init__(self, client: Client, targets: Targets) -> None:
        self._client = client
        self._targets = targets
        self._missing: set[str] = set()

    async def read(self) -> list[Configuration]:
        """Return the current target objects."""
        found: dict[tuple[str, str], Configuration] = {}
        for view, name in self._targets.named():
            try:
                live = await self._client.get(view, name, timeout=_TIMEOUT_SECONDS)
            except NotFound:
                if name not in self._missing:
                    self._missing.add(name)
                    log.info("ca_injection_target_missing", kind=view.info.kind, name=name)
                continue
            self._missing.discard(name)
            found[view.info.kind, name] = self._configuration(view, live)
        if self._targets.labelled:
            labels = f"{INJECT}={self._targets.labelled}"
            for view in (_MUTATING, _VALIDATING, _CRD):
                for live in await self._client.list(view, labels=labels, timeout=_TIMEOUT_SECONDS):
                    found[view.info.kind, live.metadata.name] = self._configuration(view, live)
        return list(found.values())

    async def inject(self, configurations: list[Configuration], bundle: bytes) -> bool:
        """Set the bundle of all entries; return whether a write was needed or failed.

        A refused write does not stop the others; its error is raised at the end.
        """
        refused: ApiError | None = None
        wrote = False
        for found in configurations:
            patch = patch_of(found, bundle)
            if patch is None:
                continue
            wrote = True
            try:
                await self._client.patch(found.view, found.name, cast("Any", patch), timeout=_TIMEOUT_SECONDS)
            except (Conflict, NotFound):
                continue  # the next call reads it again
            except ApiError as problem:
                refused = problem
                continue
            log.info("ca_bundle_injected", kind=found.view.info.kind, name=found.name)
        if refused is not None:
            raise refused
        return wrote

    def _configuration(self, view: View[Dynamic], live: Dynamic) -> Configuration:
        metadata = live.metadata
        return Configuration(
            view, metadata.name, metadata.resource_version, tuple(entries(live.body, self._targets.service))
        )


def _at(value: Any, *steps: str) -> Any:
    for step in steps:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(step)
    return value


def _leads_to(config: Any, service: tuple[str, str]) -> bool:
    found = _at(config, "service")
    return found is not None and (_at(found, "namespace"), _at(found, "name")) == service


def _bundle(config: Any) -> bytes | None:
    raw = _at(config, "caBundle")
    if not isinstance(raw, str) or not raw:
        return None
    try:
        return base64.b64decode(raw, validate=True)
    except (ValueError, binascii.Error):
        return None
