"""HelloApp: the first operator everybody writes. `steersman run helloapp:operator` runs it."""

from helloapp.controller import operator

__all__ = ["operator"]
