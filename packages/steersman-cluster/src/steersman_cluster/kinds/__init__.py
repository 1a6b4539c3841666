"""The built-in kinds: defaults, validation and fields that the API server owns; one module or package a family."""

from steersman_cluster.kinds.registry import strategy_for

__all__ = ["strategy_for"]
