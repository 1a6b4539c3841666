"""The table of idle memory sums the mappings of a process."""

from __future__ import annotations

from benchmarks.idle_memory import FEATURES, STEPS, added, mappings, median, sample

SMAPS = """\
5581-5582 r--p 00000000 00:00 1 /usr/bin/python3.11
Rss:                 100 kB
5583-5584 rw-p 00000000 00:00 0 [heap]
Rss:                  20 kB
5585-5586 rw-p 00000000 00:00 0
Rss:                   3 kB
5587-5588 r-xp 00000000 00:00 2 /venv/lib/python3.11/site-packages/msgspec/_core.so
Rss:                   4 kB
"""


def test_resident_memory_is_summed_by_kind_of_mapping() -> None:
    assert mappings(SMAPS) == {
        "the interpreter": 100,
        "heap (malloc)": 20,
        "anonymous (Python's arenas, large blocks, stacks)": 3,
        "extensions of packages": 4,
    }


def test_every_step_needs_memory_of_its_own() -> None:
    bare, loaded = sample(["pass"]), sample([program for _, program in STEPS])
    assert loaded.resident > 2 * bare.resident
    assert loaded.modules > 4 * bare.modules


def test_a_feature_is_measured_on_top_of_all_steps() -> None:
    programs = [program for _, program in STEPS]
    found = added(1, programs, median([sample(programs)]))
    assert set(found) <= {name for name, _ in FEATURES}
    assert found["a console, or a program that uses structlog"].modules > 10
    assert found["cryptography, for an operator that imports it"].resident > 1024
