"""Refuses a NameService of rocketmq.daocloud.io/v1 that must not be stored.

What the schema or a CEL rule can say belongs to the class, where it costs no request.
"""

from steersman.webhook import FieldError, Invalid

from rocketmq.api.v1.nameservice_types import NameService
from rocketmq.manager import operator


@operator.validator
def validate(nameservice: NameService, old: NameService | None) -> None:
    """Refuse each field that is wrong, and say what is wrong with it; `old` is None when the object is created."""
    problems: list[FieldError] = []
    if problems:
        raise Invalid(*problems)
