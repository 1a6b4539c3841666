"""Packs what the embedded API server serves of the built-in kinds: discovery and OpenAPI v3, one member per document.

Usage: python tools/generate_api_data.py DIRECTORY

DIRECTORY holds what a real API server of the supported version answered: `discovery/aggregated-*.json`,
`openapi-v3/*.json` and `version.json`. The result is compressed document by document, so that a server reads only
what it is asked for; all of them repeat much of the core group's, which is therefore the dictionary of the others.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import zstandard

CORE = "api_v1"
TARGET = Path(__file__).resolve().parent.parent / "packages/steersman-cluster/src/steersman_cluster/data"


def main() -> int:
    source = Path(sys.argv[1])
    discovery = [
        item
        for name in ("aggregated-api.json", "aggregated-apis.json")
        for item in json.loads((source / "discovery" / name).read_text())["items"]
    ]
    version = json.loads((source / "version.json").read_text())
    TARGET.mkdir(exist_ok=True)
    facts = {"version": version, "groups": discovery}
    (TARGET / "discovery.json").write_text(json.dumps(facts, separators=(",", ":")) + "\n")
    documents = {path.stem: path.read_bytes() for path in sorted((source / "openapi-v3").glob("api*.json"))}
    shared = zstandard.ZstdCompressionDict(documents[CORE], dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    wide = zstandard.ZstdCompressionParameters.from_level(22, window_log=24)  # pyright: ignore[reportUnknownMemberType]
    total = 0
    for name, document in documents.items():
        compressor = zstandard.ZstdCompressor(compression_params=wide, dict_data=None if name == CORE else shared)
        packed = compressor.compress(document)
        total += len(packed)
        (TARGET / f"{name}.json.zst").write_bytes(packed)
    hashes = {name: hashlib.sha512(document).hexdigest().upper() for name, document in documents.items()}
    (TARGET / "openapi.json").write_text(json.dumps(hashes, indent=0) + "\n")
    print(f"{len(discovery)} groups; OpenAPI {total} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
