"""The CRDs on the session's cluster."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.memory import PeakMemory

# A busy machine can be slow, and no property test measures speed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

MAX_MEMORY_BYTES = 3_000_000_000
MEMORY = pytest.StashKey[PeakMemory]()
CRDS = Path(__file__).parent.parent / "config" / "crd" / "bases"


@pytest.fixture
def api(cluster):
    """A cluster with the operator's kinds."""
    cluster.apply(CRDS)
    return cluster


@pytest.fixture(scope="session", autouse=True)
def memory(request):
    """Fails after the last test if all processes together needed too much memory at one time."""
    measured = request.config.stash[MEMORY] = PeakMemory()
    yield
    measured.stop()
    assert measured.peak_bytes <= MAX_MEMORY_BYTES, str(measured)


def pytest_addoption(parser):
    """Add an option for the file of a report."""
    parser.addoption("--memory-report", type=Path, help="write the peak of the memory to this JSON file")


def pytest_terminal_summary(terminalreporter, config):
    """Write the peak of the memory, and the report if its file is given."""
    if MEMORY not in config.stash:
        return
    measured = config.stash[MEMORY]
    terminalreporter.write_line(str(measured))
    # Without this file on the command line of pytest, the option does not exist.
    path = config.getoption("memory_report", default=None)
    if path is not None:
        report = {
            "date": datetime.now(UTC).date().isoformat(),
            "cores": os.cpu_count(),
            "tests": len(terminalreporter.stats.get("passed", ())),
            "selected": config.getoption("-m") or "all but soak",
            "peak_gigabytes": round(measured.peak_bytes / 1e9, 2),
            "processes": measured.processes,
        }
        path.write_text(json.dumps(report, indent=2) + "\n")


def pytest_collection_modifyitems(config, items):
    """Skip tests that take minutes on real servers, except in `make soak`."""
    if "soak" in (config.getoption("-m") or ""):
        return
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.skip(reason="takes minutes on real servers: make soak"))
