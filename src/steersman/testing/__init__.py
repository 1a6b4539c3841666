"""Tools for testing operators: virtual time, a real control plane, a pytest plugin. They are the users' too."""

from steersman.testing.loop import VirtualTimeLoop, virtual_time

__all__ = ["VirtualTimeLoop", "virtual_time"]
