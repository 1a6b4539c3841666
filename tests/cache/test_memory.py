"""`ProcessMemory` sets malloc's parameters and the garbage collector, and respects the environment."""

import gc
import subprocess
import sys
from mmap import PAGESIZE
from pathlib import Path
from types import SimpleNamespace

import pytest

from steersman.cache import Cache, memory
from steersman.cache.memory import ProcessMemory

VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")
LIST_STEP, DEFAULT_STEP = ("mallopt", -2, 32 * 1024 * 1024), ("mallopt", -2, 128 * 1024)
THRESHOLDS = [("mallopt", -3, 4 * 1024 * 1024), ("mallopt", -1, 8 * 1024 * 1024)]


@pytest.fixture
def heap(monkeypatch):
    """A C library that records its calls in `heap.calls`; its heap ends at `heap.end`."""
    heap = SimpleNamespace(end=10 * PAGESIZE + 8, calls=[])
    library = SimpleNamespace(
        mallopt=lambda *parameter: heap.calls.append(("mallopt", *parameter)),
        madvise=lambda *region: heap.calls.append(("madvise", *region)),
        malloc_trim=lambda _pad: heap.calls.append(("malloc_trim",)),
        sbrk=lambda _increment: heap.end,
    )
    monkeypatch.setattr(memory, "_libc", lambda: library)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return heap


@pytest.fixture
def collector():
    """Restores the garbage collector."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_the_start_of_a_cache_raises_the_thresholds_of_malloc_once(heap, collector):
    process = ProcessMemory()
    process.cache_started()
    process.cache_started()
    assert heap.calls == THRESHOLDS


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_of_the_environment_takes_precedence(heap, collector, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    process = ProcessMemory()
    process.cache_started()
    process.large_objects_staged()
    process.list_ended()
    assert heap.calls == []


def test_another_c_library_is_left_unchanged(collector, monkeypatch):
    monkeypatch.setattr(memory, "_libc", lambda: None)
    process = ProcessMemory()
    process.cache_started()
    process.large_objects_staged()
    process.list_ended()
    process.list_notified(100_000)
    process.caches_synced()


def test_objects_that_live_at_the_start_are_exempt_from_collections(heap, collector):
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    ProcessMemory().cache_started()
    assert gc.get_freeze_count() > frozen + 1000
    assert len(gc.get_objects()) < 1000
    assert gc.isenabled()
    assert gc.get_threshold() == thresholds


def test_the_sync_of_all_caches_makes_collections_rarer_and_trims_the_heap(heap, collector):
    ProcessMemory().caches_synced()
    assert gc.get_threshold()[0] == 50_000
    assert heap.calls == [("malloc_trim",)]


def test_the_heap_that_has_grown_since_the_last_call_gets_huge_pages(heap):
    process = ProcessMemory()
    process.large_objects_staged()
    assert heap.calls == [LIST_STEP]
    heap.end += 100 * PAGESIZE
    process.large_objects_staged()
    assert heap.calls == [LIST_STEP, LIST_STEP, ("madvise", 11 * PAGESIZE, 99 * PAGESIZE + 8, 14)]


def test_a_heap_that_has_not_grown_gets_no_huge_pages(heap):
    process = ProcessMemory()
    for _ in range(3):
        process.large_objects_staged()
    assert heap.calls == [LIST_STEP] * 3


def test_the_heap_grows_in_default_steps_after_the_list(heap):
    process = ProcessMemory()
    process.large_objects_staged()
    process.list_ended()
    assert heap.calls == [LIST_STEP, DEFAULT_STEP]
    heap.end += 100 * PAGESIZE
    process.large_objects_staged()
    assert heap.calls == [LIST_STEP, DEFAULT_STEP, LIST_STEP], "memory between two lists gets no huge pages"


def test_the_end_of_a_list_without_large_objects_changes_nothing(heap):
    ProcessMemory().list_ended()
    assert heap.calls == []


@pytest.mark.parametrize(("objects", "calls"), [(4_999, []), (5_000, [("malloc_trim",)])])
def test_only_a_large_list_trims_the_heap(heap, objects, calls):
    ProcessMemory().list_notified(objects)
    assert heap.calls == calls


async def test_a_cache_without_a_policy_changes_nothing_of_its_process(heap, collector):
    frozen, thresholds = gc.get_freeze_count(), gc.get_threshold()
    cache = Cache(None, sources=lambda _view, _scope: pytest.fail("no informer is declared"))
    await cache.start()
    await cache.close()
    assert (heap.calls, gc.get_freeze_count(), gc.get_threshold()) == ([], frozen, thresholds)


SYNC = """
from steersman.cache.memory import ProcessMemory
from steersman.cache.store import Store
from steersman.cache.wire import parse_event
from steersman.k8s import ConfigMap
from steersman.models import view_of

def line(n):
    text = '{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"%d","namespace":"n",'
    text += '"uid":"%d","resourceVersion":"1"},"data":{"a":"%s"}}}\\n'
    return (text % (n, n, "x" * size)).encode()

process = ProcessMemory()
process.cache_started()
store = Store(view_of(ConfigMap), memory=process)
store.begin()
for n in range(200):
    store.stage_all([parse_event(line(n))])
list(store.commit())
print("hg" in [flag for row in open("/proc/self/smaps") if row.startswith("VmFlags") for flag in row.split()])
"""


@pytest.mark.parametrize(("size", "huge"), [(100_000, True), (1_000, False)])
def test_a_list_of_many_large_objects_is_stored_on_huge_pages(size, huge):
    if not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
        pytest.skip("this kernel has no transparent huge pages")
    done = subprocess.run([sys.executable, "-c", f"size = {size}\n{SYNC}"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{huge}\n"
