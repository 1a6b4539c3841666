"""The resources of Pods and ServiceAccounts, whose subresources have verbs, without an import of their models."""

from __future__ import annotations

from steersman.models import dynamic

__all__ = ["POD", "SERVICE_ACCOUNT"]

POD = dynamic("v1", "Pod").info
SERVICE_ACCOUNT = dynamic("v1", "ServiceAccount").info
