"""Every built-in kind of Kubernetes as a model, generated from the API server's OpenAPI and imported when first used.

`from steersman.k8s import Pod, Deployment` imports the modules `core_v1` and `apps_v1` and no others; each group and
version is a module of its own. Importing this package lets `lookup(apiVersion, kind)` find the built-in kinds.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from steersman.k8s._index import KINDS, NAMES
from steersman.models.resource import Resource, add_finder


def _find(api_version: str, kind: str) -> type[Resource] | None:
    place = KINDS.get((api_version, kind))
    return getattr(import_module(f"{__name__}.{place[0]}"), place[1]) if place else None


add_finder(_find)


def __getattr__(name: str) -> Any:
    place = NAMES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, cls = place.partition(":")
    found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), cls)
    return found


def __dir__() -> list[str]:
    return sorted(NAMES)
