"""The kinds of `helloapp.api.v1`."""

from helloapp.api.v1.helloapp_types import HelloApp

__all__ = [
    "HelloApp",
]
