"""Prepares, before runs are forked, what each of them would import and compute again.

Each run must see the same operator, so nothing of the operator itself is run here: only modules of this project are
imported, and decoders of built-in kinds are made.
"""

from __future__ import annotations

from collections.abc import Iterable

from steersman.cache.immutability import is_immutable
from steersman.k8s import _facts as _facts
from steersman.k8s import events_v1 as _events
from steersman.k8s._index import KINDS
from steersman.manifest_files import apply as _apply
from steersman.models import wire
from steersman.models.resource import lookup
from steersman.testing.explore.transport import resource_name
from steersman_cluster.api.interfaces import Registry

__all__ = ["prepare_kinds"]

_IMPORTED = (_apply, _events, _facts)
"""What an operator and a scenario import when they first need it."""


def prepare_kinds(resources: Iterable[str], registry: Registry) -> None:
    """Make the decoders of built-in kinds.

    Args:
        resources: Names of resources, such as `pods` and `deployments.apps`; others are passed over.
        registry: The kinds that the API server serves.
    """
    wanted = frozenset(resources)
    for served in registry.all():
        if resource_name(served.group, served.plural) not in wanted:
            continue
        api_version = f"{served.group}/{served.version}" if served.group else served.version
        if (api_version, served.kind) in KINDS and (model := lookup(api_version, served.kind)) is not None:
            wire.decoder(model)
            is_immutable(model)
