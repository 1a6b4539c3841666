"""Tools for testing operators: a pytest plugin with clusters in it, faults, virtual time. They are the users' too."""

from steersman.testing.loop import VirtualTimeLoop, virtual_time
from steersman.testing.waiting import eventually

__all__ = ["VirtualTimeLoop", "eventually", "virtual_time"]
