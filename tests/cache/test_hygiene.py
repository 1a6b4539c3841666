"""What the C library is told about memory, and when it is left alone."""

import gc
import subprocess
import sys
from mmap import PAGESIZE
from pathlib import Path
from types import SimpleNamespace

import pytest

from steersman.cache import hygiene

WISHES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")


@pytest.fixture
def told(monkeypatch):
    calls = []
    library = SimpleNamespace(mallopt=lambda *parameter: calls.append(parameter))
    monkeypatch.setattr(hygiene, "_libc", lambda: library)
    for name in WISHES:
        monkeypatch.delenv(name, raising=False)
    return calls


@pytest.fixture
def heap(monkeypatch):
    """A C library whose heap ends at `heap.end`; `heap.told` is what it was told."""
    heap = SimpleNamespace(end=10 * PAGESIZE + 8, told=[])
    library = SimpleNamespace(
        mallopt=lambda *parameter: heap.told.append(("mallopt", *parameter)),
        madvise=lambda *region: heap.told.append(("madvise", *region)),
        sbrk=lambda _more: heap.end,
    )
    monkeypatch.setattr(hygiene, "_libc", lambda: library)
    monkeypatch.setattr(hygiene._Heap, "end", 0)
    for name in WISHES:
        monkeypatch.delenv(name, raising=False)
    return heap


def test_the_thresholds_of_the_c_library_are_raised(told):
    hygiene.keep_freed.__wrapped__()
    assert sorted(told) == [(-3, 4 * 1024 * 1024), (-1, 8 * 1024 * 1024)]


@pytest.mark.parametrize("name", WISHES)
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


FAR, NEAR = ("mallopt", -2, 32 * 1024 * 1024), ("mallopt", -2, 128 * 1024)


def test_the_heap_that_has_grown_since_the_last_time_is_to_have_huge_pages(heap):
    hygiene.huge_pages()
    assert heap.told == [FAR]
    heap.end += 100 * PAGESIZE
    hygiene.huge_pages()
    assert heap.told == [FAR, FAR, ("madvise", 11 * PAGESIZE, 99 * PAGESIZE + 8, 14)]


def test_a_heap_that_has_not_grown_is_left_alone(heap):
    for _ in range(3):
        hygiene.huge_pages()
    assert heap.told == [FAR] * 3


def test_the_heap_grows_as_before_when_that_is_over(heap):
    hygiene.huge_pages()
    hygiene.small_pages()
    assert heap.told == [FAR, NEAR]
    heap.end += 100 * PAGESIZE
    hygiene.huge_pages()
    assert heap.told == [FAR, NEAR, FAR], "what has come in between is not meant"


def test_nothing_is_over_that_has_not_begun(heap):
    hygiene.small_pages()
    assert heap.told == []


@pytest.mark.parametrize("name", WISHES)
def test_huge_pages_are_not_asked_for_where_the_environment_has_wishes(heap, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    hygiene.huge_pages()
    hygiene.small_pages()
    assert heap.told == []


SYNC = """
from steersman.cache import hygiene
from steersman.cache.store import Store
from steersman.cache.wire import event_of
from steersman.k8s import ConfigMap
from steersman.models import view_of

def line(n):
    text = '{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"%d","namespace":"n",'
    text += '"uid":"%d","resourceVersion":"1"},"data":{"a":"%s"}}}\\n'
    return (text % (n, n, "x" * size)).encode()

hygiene.keep_freed()
store = Store(view_of(ConfigMap))
store.begin()
for n in range(200):
    store.stage_all([event_of(line(n))])
list(store.commit())
print("hg" in [flag for row in open("/proc/self/smaps") if row.startswith("VmFlags") for flag in row.split()])
"""


@pytest.mark.parametrize(("size", "asked"), [(100_000, True), (1_000, False)])
def test_a_list_of_many_large_objects_is_taken_in_on_huge_pages_and_no_other(size, asked):
    if not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
        pytest.skip("this kernel has no transparent huge pages")
    done = subprocess.run([sys.executable, "-c", f"size = {size}\n{SYNC}"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{asked}\n"
