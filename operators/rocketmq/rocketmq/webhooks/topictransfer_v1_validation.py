"""Refuses a TopicTransfer of rocketmq.daocloud.io/v1 that must not be stored.

What the schema or a CEL rule can say belongs to the class, where it costs no request.
"""

from steersman.webhook import FieldError, Invalid

from rocketmq.api.v1.topictransfer_types import TopicTransfer
from rocketmq.manager import operator


@operator.validator
def validate(topictransfer: TopicTransfer, old: TopicTransfer | None) -> None:
    """Refuse each field that is wrong, and say what is wrong with it; `old` is None when the object is created."""
    problems: list[FieldError] = []
    if problems:
        raise Invalid(*problems)
