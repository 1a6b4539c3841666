"""The version of this package and the Kubernetes release that it follows."""

from __future__ import annotations

from typing import Final

__all__ = ["KUBERNETES_VERSION", "__version__"]

__version__ = "0.1.0"

KUBERNETES_VERSION: Final = "1.36.2"
"""The release whose API the generated files describe and the embedded cluster serves."""
