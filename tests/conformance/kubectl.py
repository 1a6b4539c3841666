"""Runs kubectl on two clusters with the same arguments and compares what users see.

What must differ between any two clusters (uids, times, ages, addresses, generated names and their hashes) is taken
out; widths of columns are not compared, because names of another length make them. What changes by itself (statuses
that controllers write) is read again until both servers return the same, or `TIMEOUT_SECONDS` seconds are over.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from steersman.testing import Cluster

__all__ = ["Run", "same"]

TIMEOUT_SECONDS = 8.0
_READS = ("get", "describe", "explain", "logs", "api-resources", "api-versions", "rollout history", "auth can-i")
_IN_BETWEEN = ("Waiting for deployment ", "--- /tmp/", "+++ /tmp/")
"""Lines about intermediate states or times."""
_RANDOM = "bcdfghjklmnpqrstvwxz2456789"
_SUBSTITUTES = [
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"[MTWFS][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "DATE"),
        (r"(\"?resourceVersion\\?\"?: ?\\?\"?)\d+", r"\1RV"),
        (r"\b10\.\d+\.\d+\.\d+\b", "IP"),
        (r"https?://127\.0\.0\.1:\d+", "URL"),
        (r"/tmp/\S+", "TMP"),
        (r"^W\d{4} [\d:.]+ +\d+ ", "W "),
        (r"\(x\d+ over ", "(xN over "),
        (rf"\b[{_RANDOM}]{{8,10}}\b", "HASH"),
        (rf"-[{_RANDOM}]{{5}}\b", "-SFX"),
        (r"\b(deployment-controller|default-scheduler|kube-controller-manager)\b", "CONTROLLER"),
        (r"\b(\d+[smhd])+\b|<invalid>|<unknown>", "AGE"),
        (r"\b3[0-2]\d{3}\b", "NODEPORT"),
    )
]


@dataclass(frozen=True)
class Run:
    """One invocation: `{ns}` is the namespace; `anyhow` where the order of lines is the names' (generated ones)."""

    command: str
    stdin: str | None = None
    anyhow: bool = False
    editor: str = ""
    asked_again: bool | None = None

    @property
    def repeats(self) -> bool:
        """Whether asking again changes nothing."""
        return self.command.startswith(_READS) if self.asked_again is None else self.asked_again


async def same(clusters: tuple[Cluster, Cluster], namespace: str, *runs: Run | str) -> None:
    """Run all on both; fails with each command whose status or output differs, and with the difference."""
    differences: list[str] = []
    for run in runs:
        step = Run(run) if isinstance(run, str) else run
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            one, other = await asyncio.gather(*(_output(cluster, namespace, step) for cluster in clusters))
            if one == other:
                break
            if not step.repeats or time.monotonic() > deadline:
                lines = difflib.unified_diff(other, one, "real", "embedded", lineterm="", n=1)
                differences.append("\n".join([f"kubectl {step.command}", *lines]))
                break
            await asyncio.sleep(0.2)
    assert not differences, "\n\n".join(differences)


async def _output(cluster: Cluster, namespace: str, run: Run) -> list[str]:
    """The status, then the output, line by line, in comparable form."""
    assert cluster._kubectl is not None
    home = cluster.directory
    process = await asyncio.create_subprocess_exec(
        str(cluster._kubectl),
        "-n",
        namespace,
        *shlex.split(run.command.replace("{ns}", namespace)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "KUBECONFIG": str(cluster.kubeconfig),
            "KUBECACHEDIR": str(home / "kubectl-cache"),
            "EDITOR": run.editor or "true",
            "TZ": "UTC",
        },
    )
    stdin = (run.stdin or "").replace("{ns}", namespace).encode()
    async with asyncio.timeout(60):
        out, err = await process.communicate(stdin)
    lines = [f"status {process.returncode}"]
    for stream in (out, err):
        found = [comparable(line, home) for line in stream.decode().splitlines() if not line.startswith(_IN_BETWEEN)]
        lines += sorted(found) if run.anyhow else found
    return lines


def comparable(line: str, home: Path) -> str:
    line = line.replace(str(home), "HOME")
    for pattern, instead in _SUBSTITUTES:
        line = pattern.sub(instead, line)
    return re.sub(r"\s+", " ", line.expandtabs(1)).rstrip()
