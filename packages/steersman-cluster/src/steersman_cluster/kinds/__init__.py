"""The built-in kinds: what the API server defaults, forbids and remembers about each, one module a family."""

from steersman_cluster.kinds.registry import strategy_for

__all__ = ["strategy_for"]
