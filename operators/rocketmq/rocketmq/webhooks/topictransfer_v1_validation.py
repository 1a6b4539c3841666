"""Refuses a TopicTransfer that conflicts with another one, or an undo that would lose messages.

Rules of the schema and CEL rules are in the class of the kind, where they need no webhook call.
"""

from collections.abc import Iterable, Iterator

from steersman.webhook import Admission, FieldError, Invalid

from rocketmq.api.v1.topictransfer_types import TopicTransfer
from rocketmq.manager import operator

NO_WAY_BACK = ("StopWrite", "Drain", "DeleteSource", "Done")
"""Phases in which a transfer can no longer be undone."""


@operator.validator(reads=[TopicTransfer])
def validate(transfer: TopicTransfer, old: TopicTransfer | None, ctx: Admission) -> None:
    """Refuse a conflicting transfer and a late undo; `old` is None when the object is created."""
    others = ctx.list(TopicTransfer) if old is None else ()
    problems = (*conflicts(transfer, others), *late_undo(transfer, old))
    if problems:
        raise Invalid(*problems)


def conflicts(transfer: TopicTransfer, others: Iterable[TopicTransfer]) -> Iterator[FieldError]:
    """Yield an error for each unfinished transfer of the same topic from or to one of the clusters."""
    clusters = {transfer.spec.source_cluster, transfer.spec.target_cluster}
    for other in sorted(others, key=lambda each: each.metadata.name):
        same = other.spec.topic == transfer.spec.topic
        shared = clusters & {other.spec.source_cluster, other.spec.target_cluster}
        if other.metadata.name != transfer.metadata.name and same and shared and other.status.phase != "Done":
            text = f"TopicTransfer {other.metadata.name} moves this topic: wait until it is done, or delete it"
            yield FieldError.invalid("spec.topic", transfer.spec.topic, text)


def late_undo(transfer: TopicTransfer, old: TopicTransfer | None) -> Iterator[FieldError]:
    """Yield an error if `undo` is set after writing to the source has stopped."""
    if old is not None and transfer.spec.undo and not old.spec.undo and old.status.phase in NO_WAY_BACK:
        text = f"the transfer is in phase {old.status.phase}: create a TopicTransfer in the opposite direction"
        yield FieldError.invalid("spec.undo", value=True, detail=text)
