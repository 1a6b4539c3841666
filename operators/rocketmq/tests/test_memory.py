"""The peak of the memory counts this process and the processes that it has started."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.memory import resident_bytes

PROGRAM = "data = bytearray(50_000_000); print('ready', flush=True); input()"


def test_a_process_and_its_descendants_count():
    before = sum(resident_bytes(os.getpid()))
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        during = sum(resident_bytes(os.getpid()))
        assert max(resident_bytes(child.pid)) > 50_000_000
        child.communicate(b"\n")
    assert during - before > 50_000_000
