"""Objects that are nested deeper than Python recurses are refused, not crashed on.

kube-apiserver, too, has a limit (10,000 levels, against a few hundred here), far beyond any real object.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from steersman_cluster.errors import bad_request

__all__ = ["bounded"]

P = ParamSpec("P")
T = TypeVar("T")


def bounded(function: Callable[P, T]) -> Callable[P, T]:
    """Make running out of stack a 400."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise bad_request("exceeded max depth") from None

    return call
