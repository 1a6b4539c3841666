"""Controllers: work queue, predicates, sources, the worker loop, and the writes of a reconcile.

Data flows one way: cache -> predicate -> work queue -> reconcile -> writer. This room knows nothing of operators.
"""

from steersman.controller.controller import Controller
from steersman.controller.loop import CURRENT_REQUEST
from steersman.controller.mappers import (
    Mapper,
    to_annotation,
    to_controller,
    to_label,
    to_owner,
    to_self,
)
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
from steersman.controller.queue import FRESH, LOW_PRIORITY, Debounce, Job, QueueClosed, WorkQueue
from steersman.controller.rate import Backoff
from steersman.controller.request import Request, Result, Retry, TerminalError
from steersman.controller.sources import Source
from steersman.controller.watchdog import LoopWatchdog

__all__ = [
    "CURRENT_REQUEST",
    "FRESH",
    "LOW_PRIORITY",
    "Backoff",
    "Controller",
    "Debounce",
    "Job",
    "LoopWatchdog",
    "Mapper",
    "Predicate",
    "PredicateLike",
    "QueueClosed",
    "Request",
    "Result",
    "Retry",
    "Source",
    "TerminalError",
    "WorkQueue",
    "annotations_changed",
    "created",
    "deleted",
    "generation_changed",
    "labelled",
    "labels_changed",
    "namespace",
    "resource_version_changed",
    "to_annotation",
    "to_controller",
    "to_label",
    "to_owner",
    "to_self",
    "updated",
    "where",
]
