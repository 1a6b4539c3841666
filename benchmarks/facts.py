"""The facts on which the numbers depend: the machine and the versions of the peers. No dates, no host name, no path."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from benchmarks.harness import versions
from benchmarks.toolchains import wheel

HARDWARE = ("CPU", "memory", "system", "Python")
"""The facts that absolute numbers depend on; the others are versions."""
_PACKAGES = ("kopf", "kubernetes", "msgspec", "pyreqwest", "aiohttp", "zstandard", "uvloop")


def machine() -> dict[str, str]:
    """Facts by name, in the order of reading; versions of peers that are not here are left out."""
    model = next((v for k, v in _cpuinfo() if k == "model name"), platform.machine())
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(file.readline().split()[1]) / 1e6
    facts = {
        "CPU": f"{model}, {os.cpu_count()} cores",
        "memory": f"{memory:.0f} GB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **versions(),
        **{name: _distribution(name) for name in _PACKAGES},
    }
    return {name: value for name, value in facts.items() if value}


def ours() -> dict[str, str]:
    """Return the measured distribution of Steersman: its version, and whether it is compiled."""
    return {"steersman": _distribution("steersman") + (", compiled" if wheel() else ", plain Python")}


def _cpuinfo() -> list[tuple[str, str]]:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        pairs = (line.partition(":") for line in file)
        return [(key.strip(), value.strip()) for key, _, value in pairs]


def _distribution(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def described(facts: dict[str, str]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in facts.items())
