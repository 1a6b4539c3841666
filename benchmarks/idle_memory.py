"""The memory of an idle operator: by loaded modules, step by step, and by mapping.

    pip install DIRECTORY-OF-THE-CHECKOUT       # in an empty environment: packages of others change the result
    python -m benchmarks.idle_memory            # writes benchmarks/idle-memory.md

Each step runs in a process of its own that has taken all steps before it. The resident memory is that of
`/proc/self/smaps_rollup`; the CPU time is that of the whole process. Rows are medians of nine processes.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

_PROCESSES: Final = 9
_REPORT: Final = Path(__file__).parent / "idle-memory.md"
STEPS: Final = (
    ("Python", "pass"),
    ("asyncio and ssl", "import asyncio, ssl"),
    ("msgspec", "import msgspec"),
    ("zstandard", "import zstandard"),
    ("models", "import steersman.models"),
    ("client", "import steersman.client"),
    ("controller and cache", "import steersman.controller, steersman.cache"),
    ("operator API", "from steersman import Context, Model, Operator, Resource"),
    ("run loop", "import steersman.operator.run, steersman.cli.run.replica"),
    ("transport", "from steersman.client.transport import native"),
    ("a built-in kind", "from steersman.k8s import ConfigMap"),
)
"""The steps, in the order in which `steersman run` reaches them."""
FEATURES: Final = (
    ("a TLS context with the system's certificate authorities", "ssl.create_default_context()"),
    ("a kubeconfig file (PyYAML)", "import steersman.client.config.kubeconfig, steersman.documents"),
    ("metrics of the operator (prometheus-client)", "import steersman.metrics"),
    ("a console, or a program that uses structlog", "import structlog"),
    ("cryptography, for an operator that imports it", "import steersman.pki.x509"),
    ("uvloop", "import uvloop"),
)
"""The modules of features that not every operator uses, on top of all steps."""
_PROBE: Final = """
import json, resource, sys
smaps = open("/proc/self/smaps").read()
used = resource.getrusage(resource.RUSAGE_SELF)
json.dump({"smaps": smaps, "cpu": used.ru_utime + used.ru_stime, "modules": len(sys.modules)}, sys.stdout)
"""


class Sample(NamedTuple):
    """The measurements of one process, in KiB and seconds."""

    mappings: dict[str, int]
    cpu: float
    modules: int

    @property
    def resident(self) -> int:
        return sum(self.mappings.values())


def mappings(smaps: str) -> dict[str, int]:
    """Return the resident KiB of a text in the format of `/proc/PID/smaps`, by kind of mapping."""
    found: Counter[str] = Counter()
    kind = ""
    for line in smaps.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            kind = _kind(line.split(maxsplit=5)[5] if len(line.split()) > 5 else "")
        elif line.startswith("Rss:"):
            found[kind] += int(line.split()[1])
    return dict(found)


def _kind(path: str) -> str:
    if path == "[heap]":
        return "heap (malloc)"
    if not path or path.startswith("["):
        return "anonymous (Python's arenas, large blocks, stacks)"
    if "/site-packages/" in path:
        return "extensions of packages"
    if "libpython" in path or re.search(r"/python3[.\d]*$", path):
        return "the interpreter"
    return "libraries and extensions of Python"


def sample(programs: list[str]) -> Sample:
    """Run the steps in a process and return what it measured."""
    code = "\n".join([*programs, _PROBE])
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=_environment())
    found = json.loads(done.stdout)
    return Sample(mappings(found["smaps"]), found["cpu"], found["modules"])


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV_", "STEERSMAN_"))}


def median(samples: list[Sample]) -> Sample:
    """Return the medians of the samples."""
    kinds = {kind for one in samples for kind in one.mappings}
    return Sample(
        {kind: round(statistics.median(one.mappings.get(kind, 0) for one in samples)) for kind in sorted(kinds)},
        statistics.median(one.cpu for one in samples),
        round(statistics.median(one.modules for one in samples)),
    )


def report(processes: int = _PROCESSES) -> str:
    """Measure and return the report."""
    programs = [program for _, program in STEPS]
    taken: list[list[Sample]] = [[] for _ in STEPS]
    for _ in range(processes):
        for number in range(len(STEPS)):
            taken[number].append(sample(programs[: number + 1]))
    found = [median(samples) for samples in taken]
    lines = [
        "<!-- Written by `python -m benchmarks.idle_memory`. -->",
        "# Where the memory of an idle operator is",
        "",
        f"Python {platform.python_version()}, {os.cpu_count()} processors, the core installation without extras.",
        f"Each row has the medians of {processes} processes, which take all steps up to the row.",
        "",
        "| step | resident, MiB | more, MiB | CPU, ms | more, ms | modules |",
        "|---|---|---|---|---|---|",
    ]
    before = Sample({}, 0.0, 0)
    for (name, _), now in zip(STEPS, found, strict=True):
        lines.append(
            f"| {name} | {now.resident / 1024:.1f} | {(now.resident - before.resident) / 1024:.1f} "
            f"| {now.cpu * 1e3:.0f} | {(now.cpu - before.cpu) * 1e3:.0f} | {now.modules} |"
        )
        before = now
    lines += ["", "Features that not every operator uses, each on top of the last row:", ""]
    lines += ["| feature | more, MiB | more CPU, ms | more modules |", "|---|---|---|---|"]
    for name, more in added(processes, programs, found[-1]).items():
        lines.append(f"| {name} | {more.resident / 1024:.1f} | {more.cpu * 1e3:.0f} | {more.modules} |")
    lines += ["", "The last step by mapping:", "", "| mapping | resident, MiB |", "|---|---|"]
    for kind, size in sorted(found[-1].mappings.items(), key=lambda item: -item[1]):
        lines.append(f"| {kind} | {size / 1024:.1f} |")
    return "\n".join(lines) + "\n"


def added(processes: int, programs: list[str], before: Sample) -> dict[str, Sample]:
    """Return what each feature adds to the samples of all steps; features whose package is missing are left out."""
    found: dict[str, Sample] = {}
    for name, program in FEATURES:
        try:
            now = median([sample([*programs, program]) for _ in range(processes)])
        except subprocess.CalledProcessError:
            continue
        more = {"all": now.resident - before.resident}
        found[name] = Sample(more, max(0.0, now.cpu - before.cpu), now.modules - before.modules)
    return found


if __name__ == "__main__":
    _REPORT.write_text(report())
    print(_REPORT.read_text(), end="")
