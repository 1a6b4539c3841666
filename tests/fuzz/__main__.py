"""`python -m tests.fuzz`: fuzz all targets or some, or replay an input that failed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .engine import fuzz, replay, save
from .targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="for all targets together (default: 5)")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="this one only; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same inputs (default: 0)")
    parser.add_argument("--failures", type=Path, default=Path("build/fuzz"), help="where failing inputs are written")
    parser.add_argument("--replay", type=Path, help="run this input again; its name begins with the target's")
    args = parser.parse_args()
    if args.replay is not None:
        return _replay(args.replay, args.target)
    names = args.target or list(TARGETS)
    failed = 0
    for name in names:
        target = TARGETS[name]
        outcome = fuzz(target, args.minutes * 60 / len(names), args.seed)
        print(
            f"{name:12} {outcome.inputs:8} inputs, {outcome.results:5} results,"
            f" slowest {outcome.slowest_seconds:.2f} s, largest {outcome.largest_megabytes:.0f} MB,"
            f" {len(outcome.failures)} failures",
            flush=True,
        )
        for failure in outcome.failures:
            print(f"  {save(failure, target, args.failures)}: {failure.problem.partition(chr(10))[0]}", flush=True)
        failed += len(outcome.failures)
    return 1 if failed else 0


def _replay(file: Path, targets: list[str] | None) -> int:
    name = targets[0] if targets else file.name.partition("-")[0]
    if name not in TARGETS:
        print(f"{file}: no target is named {name!r}; say --target, one of {', '.join(TARGETS)}")
        return 2
    failures = replay(TARGETS[name], [file.read_bytes()])
    for failure in failures:
        print(failure.problem)
    print(f"{file}: {'fails' if failures else 'passes'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
