"""Predicates: filters for events before they reach the work queue of a controller.

    from steersman.predicates import generation_changed, labelled

    @operator.controller(where=generation_changed & labelled("app=web"))

Predicates combine with `&`, `|` and `~`. A plain function of the old and the new object is a predicate by `where`.
"""

from steersman.controller.predicates import (
    Predicate,
    PredicateLike,
    annotations_changed,
    created,
    deleted,
    generation_changed,
    labelled,
    labels_changed,
    namespace,
    resource_version_changed,
    updated,
    where,
)

__all__ = [
    "Predicate",
    "PredicateLike",
    "annotations_changed",
    "created",
    "deleted",
    "generation_changed",
    "labelled",
    "labels_changed",
    "namespace",
    "resource_version_changed",
    "updated",
    "where",
]
