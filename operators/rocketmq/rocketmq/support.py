"""What this version of the operator does not do yet, as its objects report it."""

from __future__ import annotations

from steersman import ready_when

__all__ = ["NOT_SUPPORTED"]

NOT_SUPPORTED = ready_when(
    False,
    type="Available",
    reason="NotSupported",
    message="This version of the operator checks objects of this kind and deploys nothing for them.",
)
"""The condition of every Broker, Controller, Console, TopicTransfer and RocketMQCluster."""
