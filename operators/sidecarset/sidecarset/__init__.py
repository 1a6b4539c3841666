"""SidecarSet: containers that are injected into Pods. `steersman run sidecarset:operator` runs it."""

from sidecarset.controller import operator

__all__ = ["operator"]
