"""Steersman: build Kubernetes operators in Python.

The names here are loaded when they are first used, so that `import steersman` costs next to nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"
