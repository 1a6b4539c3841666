"""Steersman: build Kubernetes operators in Python.

    from steersman import Context, Model, Operator, Resource

The names here are loaded when they are first used, so that `import steersman` costs next to nothing. Built-in kinds
are in `steersman.k8s`, the API client in `steersman.client`, tools for tests in `steersman.testing`.
"""

from __future__ import annotations

from steersman.version import __version__

TYPE_CHECKING = False  # typing's own would cost more to import than all the rest of this module

if TYPE_CHECKING:
    from steersman.cache import NotCachedError, UndecodableError
    from steersman.client import Client
    from steersman.client.config import Config, load_config
    from steersman.controller import (
        Debounce,
        Predicate,
        Request,
        RequeueError,
        Result,
        TerminalError,
        annotations_changed,
        created,
        deleted,
        generation_changed,
        labelled,
        labels_changed,
        namespace,
        resource_version_changed,
        to_annotation,
        to_controller,
        to_label,
        to_owner,
        to_self,
        updated,
        where,
    )
    from steersman.models import (
        ALL_NAMESPACES,
        EMPTY,
        GVK,
        Column,
        Condition,
        Conditions,
        DecodeError,
        Duration,
        Dynamic,
        IntOrString,
        JsonPatch,
        Key,
        LabelSelector,
        LabelSelectorRequirement,
        MergePatch,
        MicroTime,
        Model,
        ObjectMeta,
        OwnerReference,
        PartialObjectMetadata,
        Quantity,
        Resource,
        Scale,
        Selector,
        StrategicMergePatch,
        View,
        dynamic,
        field,
        get_condition,
        is_true,
        key_of,
        metadata_of,
        parse_labels,
        ready_when,
        replace,
    )
    from steersman.models.markers import (
        CEL,
        ExactlyOneOf,
        Format,
        Ge,
        Gt,
        Le,
        ListMap,
        Lt,
        MaxItems,
        MaxLength,
        MaxProperties,
        MinItems,
        MinLength,
        MinProperties,
        MultipleOf,
        Pattern,
    )
    from steersman.operator import (
        Context,
        DeclarationError,
        LeadershipLostError,
        NotLeaderError,
        Operator,
        Settings,
        SyncContext,
        Watch,
        load_settings,
        run_operator,
    )
    from steersman.webhook import Admission, DeniedError, FieldError, Invalid, MatchCondition, WebhookOptions

__all__ = [
    "ALL_NAMESPACES",
    "CEL",
    "EMPTY",
    "GVK",
    "Admission",
    "Client",
    "Column",
    "Condition",
    "Conditions",
    "Config",
    "Context",
    "Debounce",
    "DeclarationError",
    "DecodeError",
    "DeniedError",
    "Duration",
    "Dynamic",
    "ExactlyOneOf",
    "FieldError",
    "Format",
    "Ge",
    "Gt",
    "IntOrString",
    "Invalid",
    "JsonPatch",
    "Key",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Le",
    "LeadershipLostError",
    "ListMap",
    "Lt",
    "MatchCondition",
    "MaxItems",
    "MaxLength",
    "MaxProperties",
    "MergePatch",
    "MicroTime",
    "MinItems",
    "MinLength",
    "MinProperties",
    "Model",
    "MultipleOf",
    "NotCachedError",
    "NotLeaderError",
    "ObjectMeta",
    "Operator",
    "OwnerReference",
    "PartialObjectMetadata",
    "Pattern",
    "Predicate",
    "Quantity",
    "Request",
    "RequeueError",
    "Resource",
    "Result",
    "Scale",
    "Selector",
    "Settings",
    "StrategicMergePatch",
    "SyncContext",
    "TerminalError",
    "UndecodableError",
    "View",
    "Watch",
    "WebhookOptions",
    "__version__",
    "annotations_changed",
    "created",
    "deleted",
    "dynamic",
    "field",
    "generation_changed",
    "get_condition",
    "is_true",
    "key_of",
    "labelled",
    "labels_changed",
    "load_config",
    "load_settings",
    "metadata_of",
    "namespace",
    "parse_labels",
    "ready_when",
    "replace",
    "resource_version_changed",
    "run_operator",
    "to_annotation",
    "to_controller",
    "to_label",
    "to_owner",
    "to_self",
    "updated",
    "where",
]

_ROOMS = (
    "steersman.models",
    "steersman.models.markers",
    "steersman.controller",
    "steersman.operator",
    "steersman.webhook",
    "steersman.cache",
    "steersman.client.config",
    "steersman.client",
)
"""Where the names live, cheapest first: a module of types does not load the runtime."""

_HOME = {
    "Client": "steersman.client",
    "Config": "steersman.client.config",
    "load_config": "steersman.client.config",
    "NotCachedError": "steersman.cache",
    "UndecodableError": "steersman.cache",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'steersman' has no attribute {name!r}")
    from importlib import import_module

    for room in (_HOME[name],) if name in _HOME else _ROOMS:
        module = import_module(room)
        if name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'steersman' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
