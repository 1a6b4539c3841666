"""Transports under the whole runtime: `python -m benchmarks.transports [ROW...] --runs N --json F`.

The same rows with each transport behind our transport protocol, and beside them the limit: httptools with no
runtime at all. What a transport costs shows only here: in isolation hand-overs between threads look free.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from benchmarks import aside
from benchmarks.harness import Bench
from benchmarks.peers.transport_peer import TRANSPORTS
from benchmarks.rows import Bar, Row, Size, events, patches, sync
from benchmarks.verdicts import Results

LIMIT = "httptools"
"""The bare protocol, without runtime."""
NATIVE = "native"


class TransportBench(Bench):
    """The stub server, and one of our peers per transport; a peer's name is its transport's."""

    def prepare(self, peer: str) -> None:
        """They are Python: there is nothing to build."""

    def _command(self, name: str, kind: str, mode: str) -> list[str]:
        base, *variants = name.split("+")
        module, chosen = ("httptools_peer", []) if base == LIMIT else ("transport_peer", ["--transport", base])
        return [
            sys.executable, "-m", f"benchmarks.peers.{module}", "--kubeconfig", str(self.stub.kubeconfig),
            "--kind", kind, "--mode", mode, *chosen, *(f"--{variant}" for variant in variants),
        ]  # fmt: skip


PEERS = (*TRANSPORTS, LIMIT)

ROWS: Sequence[Row] = (
    Row(
        "transport-patch", "Update handled with one status PATCH, as fast as they come", patches,
        Size("widgets", 10_000, 10_000), Size("widgets", 500, 500), PEERS,
        tuple(Bar("cpu_us", 1.0, other, NATIVE) for other in TRANSPORTS if other != NATIVE),
    ),
    Row(
        "transport-events", "Watch event, as fast as they can be read", events,
        Size("widgets", 20_000, 40_000), Size("widgets", 2_000, 4_000), PEERS,
    ),
    Row(
        "transport-sync", "Initial sync, 100,000 custom resources of 1.2 KB", sync,
        Size("widgets", 100_000), Size("widgets", 2_000), tuple(TRANSPORTS),
    ),
)  # fmt: skip


def words(_results: Results) -> Iterator[str]:
    """Yield the descriptions of the peers."""
    yield f"`{NATIVE}` is ours over HTTP/2, which is what an operator uses, `{NATIVE}-http1` the same over HTTP/1.1."
    yield f"`{LIMIT}` is a bare protocol, without cache, queue, retries or metrics: the limit."


STUDY = aside.Study("transports", (__doc__ or "").splitlines()[0], ROWS, TransportBench)

if __name__ == "__main__":
    sys.exit(aside.main(STUDY))
