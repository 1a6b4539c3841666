"""The command `steersman`, connected to simulated agents: `python hack/idle_operator.py FIRST_PORT ARGUMENTS`.

The agent of member M of the cluster `idle-C` listens on port FIRST_PORT + C * 3 + M of this machine.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from mysqlcluster import names  # noqa: E402
from mysqlcluster.connections import HttpsAgentSource, use_agents  # noqa: E402

if __name__ == "__main__":
    first_port = int(sys.argv.pop(1))
    use_agents(
        HttpsAgentSource(
            lambda key, member: f"https://localhost:{first_port + names.ordinal(key.name) * 3 + names.ordinal(member)}"
        )
    )
    runpy.run_module("steersman", run_name="__main__", alter_sys=True)
