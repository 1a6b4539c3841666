"""Write the generated files, or check that they are up to date.

    python -m codegen [--check] [NAME...]

Without names, all generators run. One whose sources are missing on this machine is skipped with the reason.
Exit codes: 0 success, 1 with `--check` when a file differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from codegen import api_documents, bootstrap, models, patterns, protobuf, reference, schemas, settings, telemetry
from codegen.sources import ROOT, SourceMissingError

__all__ = ["GENERATORS", "main"]

GENERATORS: Final[Mapping[str, Callable[[], dict[Path, bytes]]]] = {
    "models": models.generate,
    "api-documents": api_documents.generate,
    "schemas": schemas.generate,
    "protobuf": protobuf.generate,
    "bootstrap": bootstrap.generate,
    "settings": settings.generate,
    "reference": reference.generate,
    "patterns": patterns.generate,
    "telemetry": telemetry.generate,
}
"""The generators by name; each returns the content of its files by path below the root."""


def main(arguments: list[str] | None = None) -> int:
    """Run the generators that the command line names; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m codegen", description="Generate the files that describe Kubernetes."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file differs")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"generators, all by default: {', '.join(GENERATORS)}")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - GENERATORS.keys():
        parser.error(f"unknown generators: {', '.join(sorted(unknown))}")
    differing: list[Path] = []
    for name in options.names or GENERATORS:
        try:
            files = GENERATORS[name]()
        except SourceMissingError as problem:
            print(f"{name}: skipped: {problem}")
            continue
        changed = [path for path, content in files.items() if _read(ROOT / path) != content]
        for path in changed if not options.check else ():
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_bytes(files[path])
        state = "differ" if options.check else "written"
        print(f"{name}: {len(files)} files, {len(changed)} {state}", *changed, sep="\n  ")
        differing += changed
    return 1 if options.check and differing else 0


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
