"""Refusals that mean no harm: in a namespace that is on its way out nothing new can be made, and need not be."""

from __future__ import annotations

from steersman.client import ClientError, Forbidden
from steersman.controller import RequeueError

__all__ = ["creation_error", "is_namespace_terminating"]


def is_namespace_terminating(problem: ClientError) -> bool:
    """Return whether a creation was refused because the namespace is being deleted."""
    return isinstance(problem, Forbidden) and problem.namespace_terminating


def creation_error(problem: ClientError) -> Exception:
    """Return the error to raise: a silent retry in a terminating namespace, otherwise the refusal itself."""
    return RequeueError("the namespace is being deleted", after=5.0) if is_namespace_terminating(problem) else problem
