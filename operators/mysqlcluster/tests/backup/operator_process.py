"""The command `steersman` with local ports to the Pods: `python -m tests.backup.operator_process PORTS.json ARGUMENTS`."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

from tests.backup.nodes import use_ports

if __name__ == "__main__":
    use_ports(json.loads(Path(sys.argv.pop(1)).read_text()))
    runpy.run_module("steersman", run_name="__main__", alter_sys=True)
