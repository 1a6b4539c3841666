"""Flame graphs of our CPU time: `python -m benchmarks.flames [SCENE...]` samples our peer and draws flame graphs.

py-spy (`pip install py-spy`) looks into the peer from the server's core while it handles updates with one status PATCH
each, or lists objects, native frames included; waiting is left out. Sampling slows the peer: shares are evidence here,
times are not. The peer is plain Python, since frames of compiled modules have no lines.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.flamegraph import Stacks, owner, parse, render, shares, tidy, within
from benchmarks.harness import HERE, Bench, BenchmarkError, Peer, cores
from benchmarks.rows import Size
from benchmarks.rows.steps import at_rest, settled
from benchmarks.rows.sync import expire, listed
from benchmarks.transports import NATIVE, TransportBench

PLOTS = HERE / "plots"


@dataclass(frozen=True)
class Scene:
    """The work of the peer during the samples: `times` times with all `objects`, of which `before` exist at first."""

    title: str
    mode: str
    drive: Callable[[Bench, Peer, int, int], None]
    objects: int
    times: int
    before: int = 0


def _updates(bench: Bench, peer: Peer, objects: int, times: int) -> None:
    for number in range(1, times + 1):
        bench.stub.load("widgets", objects, 0)
        goal = objects * (number + 1)
        peer.until(lambda m, goal=goal: m["reconciles"] >= goal, 120, f"{goal} reconciles")


def _lists(bench: Bench, peer: Peer, objects: int, times: int) -> None:
    for seed in range(1, times + 1):
        bench.stub.reset("widgets", objects, seed, quietly=True)
        listed(bench, peer, Size("widgets", objects), objects)
        bench.stub.reset("widgets", 0, seed, quietly=True)
        expire(bench, peer, "widgets", 0)
        at_rest(peer, "seen")


SCENES: Mapping[str, Scene] = {
    "patch-saturated": Scene(
        "an update handled with one status PATCH, saturated", "patch", _updates, 10_000, 8, 10_000
    ),
    "sync-widgets-1k": Scene("a list of 1,000 custom resources that are new", "informer", _lists, 1_000, 60),
    "sync-widgets-100k": Scene("a list of 100,000 custom resources that are new", "informer", _lists, 100_000, 4),
}


def sampled(scene: Scene, objects: int, times: int, rate: int) -> Stacks:
    """Stacks of our peer in a scene. Raises BenchmarkError."""
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if spy is None:
        raise BenchmarkError("flame graphs need py-spy: pip install py-spy")
    bench = TransportBench()
    before = min(scene.before, objects)
    try:
        bench.stub.reset("widgets", before, 1)
        with bench.peer(NATIVE, "widgets", scene.mode) as peer, tempfile.TemporaryDirectory() as directory:
            settled(peer, Size("widgets", before), scene.mode, before)
            folded = Path(directory, "folded")
            sampler = _attach(spy, peer, rate, folded)
            try:
                scene.drive(bench, peer, objects, times)
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
    """Return the stacks of the event loop's thread, from the loop on, without the time in which it waited."""
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
    options = _options(argv)
    if unknown := set(options.scenes) - SCENES.keys():
        print(f"no such scene: {', '.join(sorted(unknown))}; there are {', '.join(SCENES)}", file=sys.stderr)
        return 2
    for name in options.scenes or SCENES:
        try:
            _draw(name, SCENES[name], options)
        except BenchmarkError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
    return 0


def _draw(name: str, scene: Scene, options: argparse.Namespace) -> None:
    objects, times = (scene.objects // 10, 2) if options.quick else (scene.objects, scene.times)
    stacks = working(sampled(scene, objects, options.runs or times, options.rate))
    count = sum(stacks.values())
    note = f"{count:,} samples of the event loop at work; native frames included, waiting left out"
    if target := options.svg or (None if options.quick else PLOTS):
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{name}-flame.svg").write_text(render(stacks, f"Steersman: {scene.title}", note))
    if options.folded:
        options.folded.mkdir(parents=True, exist_ok=True)
        lines = (f"{';'.join(stack)} {n}\n" for stack, n in sorted(stacks.items()))
        (options.folded / f"{name}.folded").write_text("".join(lines))
    print(f"{name}: {scene.title}")
    for who, share in shares(stacks):
        print(f"{share:8.1%}  {who}")


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flames", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"only these of {', '.join(SCENES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="few objects: checks that everything runs")
    parser.add_argument("--runs", type=int, help="how many times a scene is played (default: what each says)")
    parser.add_argument("--rate", type=int, default=500, help="samples a second (default: 500)")
    parser.add_argument("--svg", type=Path, metavar="DIR", help="where graphs go (default: plots, not with --quick)")
    parser.add_argument("--folded", type=Path, metavar="DIR", help="keep the stacks there, for other tools")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
