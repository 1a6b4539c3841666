"""Kubernetes API types as frozen Python values: models, resources, wire encoding, and the types that only Kubernetes has.

Everything is immutable and free of I/O. This room stands at the bottom: it imports nothing of Steersman.
"""

from steersman.models.base import EMPTY, FrozenDict, Model, field, replace
from steersman.models.meta import (
    Condition,
    Conditions,
    HasMetadata,
    Key,
    LabelSelector,
    LabelSelectorRequirement,
    ListMeta,
    ObjectMeta,
    OwnerReference,
    PartialObjectMetadata,
    key_of,
)
from steersman.models.resource import (
    GVK,
    Column,
    Dynamic,
    KindLike,
    Resource,
    ResourceInfo,
    Scale,
    View,
    dynamic,
    info_of,
    lookup,
    metadata_of,
    view_of,
)
from steersman.models.wire import DecodeError, decode, encode, from_dict, to_dict

__all__ = [
    "EMPTY",
    "GVK",
    "Column",
    "Condition",
    "Conditions",
    "DecodeError",
    "Dynamic",
    "FrozenDict",
    "HasMetadata",
    "Key",
    "KindLike",
    "LabelSelector",
    "LabelSelectorRequirement",
    "ListMeta",
    "Model",
    "ObjectMeta",
    "OwnerReference",
    "PartialObjectMetadata",
    "Resource",
    "ResourceInfo",
    "Scale",
    "View",
    "decode",
    "dynamic",
    "encode",
    "field",
    "from_dict",
    "info_of",
    "key_of",
    "lookup",
    "metadata_of",
    "replace",
    "to_dict",
    "view_of",
]
