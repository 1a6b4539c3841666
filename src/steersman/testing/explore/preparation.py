"""Prepares, before runs are forked, what each of them would import and compute again.

Each run must see the same operator, so nothing of the operator itself is run here: only modules of this project are
imported, and the decoders and schemas of built-in kinds are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from steersman.cache.immutability import is_immutable
from steersman.k8s import _facts as _facts
from steersman.k8s import events_v1 as _events
from steersman.k8s._index import KINDS
from steersman.manifest_files import apply as _apply
from steersman.models import PartialObjectMetadata, wire
from steersman.models.resource import lookup
from steersman.testing.explore.transport import resource_name
from steersman_cluster import schema
from steersman_cluster.api.interfaces import Registry

__all__ = ["prepare_kinds"]

_IMPORTED = (_apply, _events, _facts)
"""What an operator and a scenario import when they first need it."""


def prepare_kinds(samples: Mapping[str, bytes], registry: Registry) -> None:
    """Make the decoders and schemas of built-in kinds.

    Args:
        samples: An object of each kind as JSON, by the name of its resource, such as `pods` and `deployments.apps`;
            kinds of CustomResourceDefinitions are passed over.
        registry: The kinds that the API server serves.
    """
    is_immutable(PartialObjectMetadata)
    for served in registry.all():
        sample = samples.get(resource_name(served.group, served.plural))
        api_version = f"{served.group}/{served.version}" if served.group else served.version
        if sample is None or (api_version, served.kind) not in KINDS:
            continue
        schema.decode(msgspec.json.decode(sample), served.type)
        model: Any = lookup(api_version, served.kind)
        wire.decoder(model)
        is_immutable(model)
