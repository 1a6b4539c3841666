"""The steps that measurements share: filling the server, waiting until a peer has taken that in, and peace."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.harness import Bench, BenchmarkError, Mark, Peer
from benchmarks.rows.model import CEILING, KOPF, Size

CONTROLLERS = ("noop", "patch", "apply")
_POLLING = 0.05
"""The part of a core that polls and what is never quite idle may take."""
_SILENT = (KOPF,)
"""Peers that do not say when they have synced, and reconcile nothing at first."""


def silent(peer: str) -> bool:
    """Whether a peer's sync can be told only by its coming to rest."""
    return peer.partition("+")[0] in _SILENT


def fill(bench: Bench, peer: str, size: Size, seed: int, *, quietly: bool = False) -> int:
    """Have the server hold the objects of a size, in the form that the peer asks for; answers how many there are.

    Watches end, unless it is done `quietly`: then the watchers get no event.
    """
    more: dict[str, Any] = {"namespaces": size.namespaces} if size.namespaces else {}
    if forms := _forms(peer):
        more["forms"] = forms  # encoded now, not while the peer waits for them
    filled = bench.stub.reset(size.kind, size.objects, seed, quietly=quietly, **more)
    return int(filled.get("count", size.objects))


def _forms(peer: str) -> str:
    _, *variants = peer.split("+")
    if "metadata" in variants:
        return "metadata,metadata-protobuf"
    return "protobuf" if "protobuf" in variants else ""


def settled(peer: Peer, size: Size, mode: str, expected: int) -> Mark:
    """Wait for the initial sync, and in modes with a controller for the first reconcile of every object.

    Raises BenchmarkError when the peer saw another number of objects than there are.
    """
    if silent(peer.name):
        _quiet(peer)
    else:
        peer.wait("synced")
    mark = peer.until(lambda m: m["seen"] >= expected, 90, f"seeing {expected} objects")
    if mode in CONTROLLERS and not silent(peer.name) and peer.name not in CEILING:
        firsts = expected * size.controllers
        mark = peer.until(lambda m: m["reconciles"] >= firsts, 120, f"{firsts} first reconciles")
    if mark["seen"] != expected:
        raise BenchmarkError(f"{peer.name} saw {mark['seen']} objects of {expected}")
    return mark


def costs(objects: int, cpu: float, empty: float, synced: Mark, rest: Mark) -> dict[str, float]:
    """The numbers of a sync: CPU seconds of the objects, RSS without any, and the process before and after settling."""
    return {
        "cpu_us": cpu / objects * 1e6,
        "bytes": (rest["rss"] - empty) / objects,
        "bytes_unsettled": (synced["rss"] - empty) / objects,
        "rss_mb": rest["rss"] / 1e6,
        "peak_mb": synced.get("peak", 0) / 1e6,
        "empty_rss_mb": empty / 1e6,
        "total_cpu_ms": cpu * 1e3,
        "total_mb": (rest["rss"] - empty) / 1e6,
    }


def at_rest(peer: Peer, counter: str, *, quiet: float = 0.6, timeout: float = 120) -> Mark:
    """Wait until a counter has not moved for `quiet` seconds, in which the peer took no more CPU than polls cost."""
    deadline = time.monotonic() + timeout
    mark, since = peer.poll(), time.monotonic()
    while time.monotonic() - since < quiet:
        if time.monotonic() > deadline:
            raise peer.failed(f"did not come to rest in {timeout} s")
        time.sleep(0.1)
        now = peer.poll()
        busy = now["cpu"] - mark["cpu"] > 0.005 + _POLLING * (now["wall"] - mark["wall"])
        if now[counter] != mark[counter] or busy:
            mark, since = now, time.monotonic()
    return mark


def _quiet(peer: Peer) -> None:
    # kopf says nothing when it has synced: wait until a second passes without work.
    before = peer.poll()
    while True:
        time.sleep(1)
        after = peer.poll()
        if after["seen"] and (after["seen"], after["events"]) == (before["seen"], before["events"]):
            return
        if after["wall"] - peer.started > 300:
            raise BenchmarkError(f"{peer.name} did not come to rest in 300 s")
        if after["cpu"] - before["cpu"] < 0.02 and after["wall"] - peer.started > 5:
            return
        before = after
