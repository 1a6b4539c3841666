"""The rate at which a container uses CPU time, from samples of the time that its processes have used."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["SAMPLE_EVERY_SECONDS", "Meter"]

SAMPLE_EVERY_SECONDS: Final = 15.0
"""The interval at which metrics-server reads kubelets."""
_MIN_WINDOW_SECONDS: Final = 10.0
_SAMPLES: Final = 8


class Meter:
    """The samples of one run of a container. Times are seconds of a monotonic clock."""

    def __init__(self, started: float) -> None:
        self._samples: deque[tuple[float, float]] = deque([(started, 0.0)], maxlen=_SAMPLES)

    def take(self, at: float, cpu_seconds: float) -> tuple[float, float]:
        """Take a sample; returns the cores in use over a window that ends now, and the length of the window in seconds.

        The window begins at the newest sample that is at least ten seconds old, else at the oldest sample.
        """
        old = [sample for sample in self._samples if at - sample[0] >= _MIN_WINDOW_SECONDS]
        begun, before = old[-1] if old else self._samples[0]
        if at - self._samples[-1][0] >= _MIN_WINDOW_SECONDS:
            self._samples.append((at, cpu_seconds))
        window = max(at - begun, 0.001)
        # The sum decreases when a process leaves the tree.
        return max(cpu_seconds - before, 0.0) / window, window
