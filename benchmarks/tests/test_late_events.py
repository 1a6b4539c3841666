"""Each part of the way of a late event has one cause, and the garbage collections of Go are read from its traces."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.go_traces import collections, placed, traced_binaries
from benchmarks.late_causes import (
    ALL_WORKERS,
    DELAYED,
    HOST,
    OTHER_WORK,
    QUEUED,
    REQUEST,
    SERVER_COLLECTION,
    WATCH,
    Event,
    Records,
    causes,
)
from benchmarks.late_events import Round, report
from benchmarks.peers.observed_peer import COLLECTION, Record
from steersman.testing.controlplane.binaries import find_binaries

MS = 1_000_000
EVENT = Event(sent=100 * MS, answered=110 * MS, read=130 * MS, reconciled=150 * MS)
READ_AT_ONCE = Records(busy=[(130 * MS, 131 * MS)])


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (READ_AT_ONCE, {REQUEST: 10, WATCH: 20, OTHER_WORK: 1, QUEUED: 19}),
        (Records(busy=[(130 * MS, 150 * MS)]), {REQUEST: 10, WATCH: 20, OTHER_WORK: 20}),
        # The operator was busy with something else when the bytes arrived, so the server had sent them before.
        (Records(busy=[(115 * MS, 160 * MS)]), {REQUEST: 10, WATCH: 5, OTHER_WORK: 35}),
        (
            Records(busy=[(115 * MS, 129 * MS), (130 * MS, 150 * MS)]),
            {REQUEST: 10, WATCH: 5, OTHER_WORK: 34, QUEUED: 1},
        ),
        # It was busy before, and waited for the bytes afterwards.
        (Records(busy=[(105 * MS, 120 * MS), (130 * MS, 150 * MS)]), {REQUEST: 10, WATCH: 20, OTHER_WORK: 20}),
        (
            Records(busy=[(115 * MS, 150 * MS)], work={COLLECTION: [(116 * MS, 126 * MS)]}),
            {REQUEST: 10, WATCH: 5, COLLECTION: 10, OTHER_WORK: 25},
        ),
        (
            dataclasses.replace(READ_AT_ONCE, server_collections=[(105 * MS, 125 * MS), (135 * MS, 140 * MS)]),
            {REQUEST: 5, SERVER_COLLECTION: 20, WATCH: 5, OTHER_WORK: 1, QUEUED: 19},
        ),
        (
            dataclasses.replace(READ_AT_ONCE, stalls=[(105 * MS, 115 * MS), (140 * MS, 200 * MS)]),
            {HOST: 20, REQUEST: 5, WATCH: 15, OTHER_WORK: 1, QUEUED: 9},
        ),
        (
            Records(busy=[(130 * MS, 150 * MS)], delayed=[(90 * MS, 130 * MS, 8 * MS)]),
            {REQUEST: 10, WATCH: 12, DELAYED: 8, OTHER_WORK: 20},
        ),
        (
            dataclasses.replace(READ_AT_ONCE, saturated=[(120 * MS, 145 * MS)]),
            {REQUEST: 10, WATCH: 20, OTHER_WORK: 1, ALL_WORKERS: 14, QUEUED: 5},
        ),
    ],
)
def test_each_part_of_the_way_has_one_cause(records: Records, expected: Mapping[str, float]) -> None:
    found = causes(EVENT, records)
    assert {name: spent / MS for name, spent in found.items()} == pytest.approx(expected)
    assert sum(found.values()) == EVENT.late


def test_a_watch_event_may_arrive_before_the_response_to_the_writer() -> None:
    early = dataclasses.replace(EVENT, answered=200 * MS)
    assert causes(early, READ_AT_ONCE)[REQUEST] == 30 * MS


TRACE = """\
gc 1 @0.100s 5%: 0.010+2.5+0.003 ms clock, 0.010+0.2/0.5/0+0.003 ms cpu, 4->4->1 MB, 4 MB goal, 0 MB stacks, 1 P
I1125 12:00:00.000000 1 httplog.go:134] "HTTP" verb="PATCH"
gc 2 @1.200s 4%: 0.1+20+0.1 ms clock, 0.1+1/2/0+0.1 ms cpu, 8->9->5 MB, 9 MB goal, 0 MB stacks, 1 P (forced)
"""


def test_garbage_collections_are_read_from_the_traces_of_go() -> None:
    assert collections(TRACE) == [(100 * MS, 2_513_000), (1_200 * MS, 20_200_000)]


def test_collections_are_placed_by_the_line_that_was_seen_soonest() -> None:
    start = 5_000 * MS
    seen = [(100 * MS, 2 * MS, start + 110 * MS), (1_200 * MS, 20 * MS, start + 1_221 * MS)]
    assert placed(seen) == [
        (start + 101 * MS, start + 103 * MS),
        (start + 1_201 * MS, start + 1_221 * MS),
    ]
    assert placed([]) == []


def test_traced_binaries_are_those_of_the_control_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, scripts = tmp_path / "real", tmp_path / "scripts"
    for directory in (real, scripts):
        directory.mkdir()
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (real / name).touch(0o755)
    monkeypatch.setenv("STEERSMAN_CONTROLPLANE", str(real))
    with traced_binaries(scripts):
        assert find_binaries().directory == scripts
        assert str(real / "etcd") in (scripts / "etcd").read_text()
        assert (scripts / "kubectl").resolve() == real / "kubectl"
    assert find_binaries().directory == real


def test_the_record_has_busy_periods_collections_and_saturation() -> None:
    record = Record()
    gc.callbacks.append(record.collected)
    try:
        record.runs()
        garbage = [[] for _ in range(200_000)]
        gc.collect()
        record.waits()
    finally:
        gc.callbacks.remove(record.collected)
    assert len(garbage) == 200_000
    ((began, ended),) = record.busy
    assert any(began <= since < until <= ended for since, until in record.work[COLLECTION])
    record.worker_waits()
    record.worker_runs()
    record.worker_waits()
    ((full, free),) = record.saturated
    assert full <= free


def test_a_change_was_read_when_its_first_line_was() -> None:
    record = Record()
    line = b'{"type":"MODIFIED","object":{"metadata":{"annotations":{"bench.steersman.dev/sent-at":"42"}}}}'
    record.socket_read()
    record.line(line)
    first = record.read["42"]
    record.socket_read()
    record.line(line)
    assert record.read == {"42": first}


def test_the_report_names_who_is_responsible() -> None:
    numbers = {"p50": 0.005, "p99": 0.05, "max": 0.05}
    soon = Event(sent=0, answered=MS, read=MS, reconciled=2 * MS)
    ours = Round("steersman", 1, numbers, 0, [soon, EVENT], READ_AT_ONCE)
    text = "\n".join(report([ours, Round("controller-runtime", 1, numbers)]))
    assert "| 1 | steersman | 5.0 ms | 50.0 ms | 50.0 ms | 1 of 2 |" in text
    assert f"| {WATCH} | 1 | 20.0 ms | 20.0 ms |" in text
    assert "| 1 | 0.10 s | 50.0 ms | 10.0 ms | 30.0 ms | 50.0 ms |" in text
    assert "| from the read until the reconcile | 1.0 ms | 1.0 ms | 20.0 ms |" in text
    assert "No event was later" in "\n".join(report([Round("steersman", 1, numbers, 0, [soon], READ_AT_ONCE)]))
