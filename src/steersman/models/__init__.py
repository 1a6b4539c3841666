"""Kubernetes API types as frozen Python values: models, resources, JSON encoding, and types that only Kubernetes has.

All values are immutable, and no function does I/O. This package imports no other package of Steersman.
"""

from steersman.models import markers, selectors
from steersman.models.base import EMPTY, FrozenDict, Model, field, replace
from steersman.models.conditions import (
    get_condition,
    is_true,
    merge_conditions,
    ready_when,
    remove_condition,
    set_condition,
)
from steersman.models.evolve import PathError, evolve
from steersman.models.intstr import IntOrString, scaled_value
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
from steersman.models.patches import (
    ApplyPatch,
    JsonPatch,
    MergePatch,
    Patch,
    PatchError,
    StrategicMergePatch,
    pointer,
)
from steersman.models.quantity import Quantity
from steersman.models.resource import (
    Dynamic,
    KindLike,
    Resource,
    View,
    dynamic,
    info_of,
    lookup,
    metadata_of,
    view_of,
)
from steersman.models.resource_info import ALL_NAMESPACES, GVK, Column, ResourceInfo, Scale
from steersman.models.selectors import FieldSelector, Selector, SelectorError, parse_fields, parse_labels
from steersman.models.times import Duration, MicroTime
from steersman.models.wire import DecodeError, decode, encode, from_dict, to_dict

__all__ = [
    "ALL_NAMESPACES",
    "EMPTY",
    "GVK",
    "ApplyPatch",
    "Column",
    "Condition",
    "Conditions",
    "DecodeError",
    "Duration",
    "Dynamic",
    "FieldSelector",
    "FrozenDict",
    "HasMetadata",
    "IntOrString",
    "JsonPatch",
    "Key",
    "KindLike",
    "LabelSelector",
    "LabelSelectorRequirement",
    "ListMeta",
    "MergePatch",
    "MicroTime",
    "Model",
    "ObjectMeta",
    "OwnerReference",
    "PartialObjectMetadata",
    "Patch",
    "PatchError",
    "PathError",
    "Quantity",
    "Resource",
    "ResourceInfo",
    "Scale",
    "Selector",
    "SelectorError",
    "StrategicMergePatch",
    "View",
    "decode",
    "dynamic",
    "encode",
    "evolve",
    "field",
    "from_dict",
    "get_condition",
    "info_of",
    "is_true",
    "key_of",
    "lookup",
    "markers",
    "merge_conditions",
    "metadata_of",
    "parse_fields",
    "parse_labels",
    "pointer",
    "ready_when",
    "remove_condition",
    "replace",
    "scaled_value",
    "selectors",
    "set_condition",
    "to_dict",
    "view_of",
]
