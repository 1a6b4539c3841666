"""Packs what the embedded API server serves of the built-in kinds: discovery and OpenAPI v3, one member per document.

Usage: python tools/generate_api_data.py DIRECTORY

DIRECTORY holds what a real API server of the supported version answered: `discovery/aggregated-*.json`,
`openapi-v3/*.json` and `version.json`. The result is compressed document by document, so that a server reads only
what it is asked for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import zstandard

TARGET = Path(__file__).resolve().parent.parent / "src/steersman/devcluster/data"


def main() -> int:
    source = Path(sys.argv[1])
    compress = zstandard.ZstdCompressor(level=22).compress
    discovery = [
        item
        for name in ("aggregated-api.json", "aggregated-apis.json")
        for item in json.loads((source / "discovery" / name).read_text())["items"]
    ]
    version = json.loads((source / "version.json").read_text())
    TARGET.mkdir(exist_ok=True)
    facts = {"version": version, "groups": discovery}
    (TARGET / "discovery.json").write_text(json.dumps(facts, separators=(",", ":")) + "\n")
    total = 0
    for document in sorted((source / "openapi-v3").glob("api*.json")):
        packed = compress(document.read_bytes())
        total += len(packed)
        (TARGET / f"{document.stem}.json.zst").write_bytes(packed)
    print(f"{len(discovery)} groups; OpenAPI {total} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
