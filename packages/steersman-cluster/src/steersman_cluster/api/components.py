"""ComponentStatuses: the parts of the control plane, which this process all is, and which are well while it answers.

Nothing is stored: the list is computed, has no resourceVersion, no pages and no watch.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from steersman_cluster.api.interfaces import ObjectReader, ResourceType
from steersman_cluster.api.requests.messages import Response, encode
from steersman_cluster.api.requests.negotiation import Form
from steersman_cluster.api.requests.options import ListOptions
from steersman_cluster.api.views import object_of
from steersman_cluster.errors import not_found
from steersman_cluster.storage import Item

__all__ = ["COMPONENT_STATUSES", "get_component", "list_components"]

COMPONENT_STATUSES: Final = ("", "componentstatuses")
_NAMES: Final = ("controller-manager", "etcd-0", "scheduler")


@cache
def _components() -> tuple[Item, ...]:
    healthy = [{"type": "Healthy", "status": "True", "message": "ok"}]
    kind = {"kind": "ComponentStatus", "apiVersion": "v1"}
    return tuple(
        Item("", name, 0, encode({**kind, "metadata": {"name": name}, "conditions": healthy})) for name in _NAMES
    )


def get_component(reads: ObjectReader, resource: ResourceType, name: str, form: Form, include: str) -> Response:
    """Return the status of one component in the form that was asked for. Raises a 404 for other names."""
    for item in _components():
        if item.name == name:
            return reads.shaped(resource, object_of(resource, item), form, include)
    raise not_found("", "componentstatus", name)


def list_components(
    reads: ObjectReader, resource: ResourceType, options: ListOptions, form: Form, include: str
) -> Response:
    """Return the statuses of the components that the selectors match."""
    reads.check_fields(resource, options)
    return reads.listed(resource, reads.selected(resource, _components(), options), {}, form, include)
