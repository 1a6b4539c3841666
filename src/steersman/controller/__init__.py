"""Controllers: work queue, predicates, sources, workers, and the writes of a reconcile.

Data flows in one direction: cache -> predicate -> work queue -> reconcile -> writer. This package does not depend on
`Operator`.
"""

from steersman.controller.apply import Applier, FieldConflictError
from steersman.controller.backoff import Backoff
from steersman.controller.cached_state import CachedState
from steersman.controller.controller import Controller
from steersman.controller.events import EventRecorder
from steersman.controller.finalizers import (
    Finalizer,
    FinalizerOutcome,
    FinalizerState,
    add_finalizers,
    remove_finalizer,
    run_finalizers,
)
from steersman.controller.mappers import (
    Mapper,
    to_annotation,
    to_controller,
    to_label,
    to_owner,
    to_self,
)
from steersman.controller.ownership import (
    OwnershipError,
    controller_of,
    is_controlled_by,
    is_owned_by,
    owner_reference,
)
from steersman.controller.periodic import Periodic
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
from steersman.controller.queue import DEFAULT_PRIORITY, LOW_PRIORITY, Debounce, Job, QueueClosedError, WorkQueue
from steersman.controller.references import object_reference
from steersman.controller.request import Request, RequeueError, Result, TerminalError
from steersman.controller.sources import Source
from steersman.controller.status import NoStatusSubresourceError, patch_status
from steersman.controller.watchdog import LoopWatchdog
from steersman.controller.worker import CURRENT_REQUEST

__all__ = [
    "CURRENT_REQUEST",
    "DEFAULT_PRIORITY",
    "LOW_PRIORITY",
    "Applier",
    "Backoff",
    "CachedState",
    "Controller",
    "Debounce",
    "EventRecorder",
    "FieldConflictError",
    "Finalizer",
    "FinalizerOutcome",
    "FinalizerState",
    "Job",
    "LoopWatchdog",
    "Mapper",
    "NoStatusSubresourceError",
    "OwnershipError",
    "Periodic",
    "Predicate",
    "PredicateLike",
    "QueueClosedError",
    "Request",
    "RequeueError",
    "Result",
    "Source",
    "TerminalError",
    "WorkQueue",
    "add_finalizers",
    "annotations_changed",
    "controller_of",
    "created",
    "deleted",
    "generation_changed",
    "is_controlled_by",
    "is_owned_by",
    "labelled",
    "labels_changed",
    "namespace",
    "object_reference",
    "owner_reference",
    "patch_status",
    "remove_finalizer",
    "resource_version_changed",
    "run_finalizers",
    "to_annotation",
    "to_controller",
    "to_label",
    "to_owner",
    "to_self",
    "updated",
    "where",
]
