"""Where our CPU time goes: `python -m benchmarks.flames` samples our peer and draws a flame graph.

py-spy (`pip install py-spy`) looks into the peer from the server's core while it handles updates with one status PATCH
each, native frames included; waiting is left out. Sampling slows the peer: shares are evidence here, times are not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.flamegraph import Stacks, owner, parse, render, shares, tidy, within
from benchmarks.harness import HERE, BenchmarkError, Peer, cores
from benchmarks.transports import NATIVE, TransportBench

TARGET = HERE / "plots" / "patch-saturated-flame.svg"


def sampled(objects: int, rounds: int, rate: int) -> Stacks:
    """Stacks of our peer while it answers `rounds` times `objects` updates. Raises BenchmarkError."""
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if spy is None:
        raise BenchmarkError("flame graphs need py-spy: pip install py-spy")
    bench = TransportBench()
    try:
        bench.stub.reset("widgets", objects, 1)
        with bench.peer(NATIVE, "widgets", "patch") as peer, tempfile.TemporaryDirectory() as directory:
            peer.wait("synced")
            peer.until(lambda m: m["reconciles"] >= objects, 90, "first reconciles")
            folded = Path(directory, "folded")
            sampler = _attach(spy, peer, rate, folded)
            try:
                for number in range(1, rounds + 1):
                    bench.stub.load("widgets", objects, 0)
                    goal = objects * (number + 1)
                    peer.until(lambda m, goal=goal: m["reconciles"] >= goal, 120, f"{goal} reconciles")
            finally:
                sampler.send_signal(signal.SIGINT)
                _, errors = sampler.communicate(timeout=60)
            if sampler.returncode or not folded.exists():
                raise BenchmarkError(f"py-spy failed: {errors.decode(errors='replace')[-1500:]}")
            return parse(folded.read_text().splitlines())
    finally:
        bench.close()


def _attach(spy: str, peer: Peer, rate: int, folded: Path) -> subprocess.Popen[bytes]:
    """Start sampling; returns once it samples."""
    sampler = subprocess.Popen(
        [spy, "record", "--pid", str(peer.pid), "--native", "--rate", str(rate), "--format", "raw", "--output", folded],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, cores()[0]),
    )
    assert sampler.stdout is not None
    for line in sampler.stdout:
        if b"Sampling process" in line:
            return sampler
    _, errors = sampler.communicate()
    raise BenchmarkError(f"py-spy could not attach: {errors.decode(errors='replace')[-1500:]}")


def working(stacks: Stacks) -> Stacks:
    """What the event loop's thread did, from the loop on, without the time in which it waited."""
    tidied: Counter[tuple[str, ...]] = Counter()
    for stack, count in stacks.items():
        if not any(frame.startswith(("epoll_", "0x")) and _waits(stack, at) for at, frame in enumerate(stack)):
            tidied[tidy(stack)] += count
    return within(tidied, "event loop")


def _waits(stack: Sequence[str], at: int) -> bool:
    # The poll's system call is the innermost frame; a frame of libc without a name below it may be its body.
    return stack[at].startswith("epoll_") or (
        at == len(stack) - 1 and at > 0 and "uv__io_poll" in stack[at - 1] and owner(stack[at]) == "libc"
    )


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0, or 2 when nothing could be sampled."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flames", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few updates: checks that everything runs")
    parser.add_argument("--runs", type=int, default=8, help="how many times all objects are updated (default: 8)")
    parser.add_argument("--rate", type=int, default=200, help="samples a second (default: 200)")
    parser.add_argument("--svg", type=Path, help=f"write the graph there (default: {TARGET.name}, not with --quick)")
    parser.add_argument("--folded", type=Path, help="keep the stacks, for other tools")
    options = parser.parse_args(argv)
    try:
        stacks = working(sampled(1_000 if options.quick else 10_000, options.runs, options.rate))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2
    count = sum(stacks.values())
    note = f"{count:,} samples of the event loop at work; native frames included, waiting left out"
    if target := options.svg or (None if options.quick else TARGET):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(render(stacks, "Steersman: an update handled with one status PATCH, saturated", note))
    if options.folded:
        options.folded.write_text("".join(f"{';'.join(stack)} {n}\n" for stack, n in sorted(stacks.items())))
    for who, share in shares(stacks):
        print(f"{share:6.1%}  {who}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
