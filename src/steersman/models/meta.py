"""The metadata types that all objects share: ObjectMeta, owner references, lists, conditions, label selectors.

Field names and meanings follow `k8s.io/apimachinery/pkg/apis/meta/v1`. `managedFields` is left out: its decoding takes
three to seven times as long as the rest of the metadata, and no controller needs it (dynamic views have it).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from steersman.models.base import EMPTY, Model

__all__ = [
    "Condition",
    "Conditions",
    "HasMetadata",
    "Key",
    "LabelSelector",
    "LabelSelectorRequirement",
    "ListMeta",
    "ObjectMeta",
    "OwnerReference",
    "PartialObjectMetadata",
    "key_of",
]


class Key(NamedTuple):
    """Namespace and name of an object of a kind; the namespace of cluster-scoped objects is `""`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(Model):
    """A reference to the owner of an object, in the same namespace or cluster-scoped; `uid` identifies the owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model, omit_empty=True):
    """Metadata of every stored object; absent `name` and `namespace` are `""`."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    self_link: str = ""


class ListMeta(Model, omit_empty=True):
    """Metadata of a list: its version, and the token of the next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None
    self_link: str = ""


class Condition(Model):
    """One observation of an object's state, by the API conventions (`status` is "True", "False" or "Unknown")."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


Conditions = tuple[Condition, ...]
"""The conventional `status.conditions`: a list that is a map by `type`."""


class LabelSelectorRequirement(Model):
    """One set-based rule: `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Model):
    """All of `matchLabels` and all of `matchExpressions`; an empty selector matches every object."""

    match_labels: Mapping[str, str] = EMPTY
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class PartialObjectMetadata(Model):
    """The metadata-only view of any kind."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class HasMetadata(Protocol):
    """An object with `metadata`: a typed resource, a dynamic object or a metadata-only view."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


def key_of(obj: HasMetadata) -> Key:
    """Return the key of an object."""
    return Key(obj.metadata.namespace, obj.metadata.name)
