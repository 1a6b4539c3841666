"""What the C library is told about memory, and when it is left alone."""

import gc
from types import SimpleNamespace

import pytest

from steersman.cache import hygiene


@pytest.fixture
def told(monkeypatch):
    calls = []
    library = SimpleNamespace(mallopt=lambda *parameter: calls.append(parameter))
    monkeypatch.setattr(hygiene, "_libc", lambda: library)
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_the_thresholds_of_the_c_library_are_raised(told):
    hygiene.keep_freed.__wrapped__()
    assert sorted(told) == [(-3, 4 * 1024 * 1024), (-1, 8 * 1024 * 1024)]


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_what_the_environment_says_stands(told, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    hygiene.keep_freed.__wrapped__()
    assert told == []


def test_another_c_library_is_left_alone(told, monkeypatch):
    monkeypatch.setattr(hygiene, "_libc", lambda: None)
    hygiene.keep_freed.__wrapped__()
    assert told == []


def test_what_is_alive_when_a_cache_starts_is_not_looked_at_again():
    """Modules and classes: a full collection of all of them would fall into the initial sync."""
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        hygiene.set_aside.__wrapped__()
        assert gc.get_freeze_count() > frozen + 1000
        assert len(gc.get_objects()) < 1000
        assert gc.isenabled()
        assert gc.get_threshold() == thresholds
    finally:
        gc.unfreeze()
