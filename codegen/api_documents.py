"""Packs the discovery and OpenAPI v3 documents of the built-in kinds for the embedded API server.

Each document is compressed alone, so that the server reads only the documents that a client requests. The document of
the core group is the dictionary of the others, which repeat most of it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

import zstandard

from codegen.sources import CLUSTER, api_documents, discovery_documents, server_version

__all__ = ["generate"]

CORE: Final = "api_v1"
TARGET: Final = CLUSTER / "data"
ZSTD_LEVEL: Final = 22
ZSTD_WINDOW_BITS: Final = 24


def generate() -> dict[Path, bytes]:
    """Return the packed documents, their hashes and the discovery document, by path."""
    groups = [item for document in discovery_documents() for item in document["items"]]
    facts = {"version": server_version(), "groups": groups}
    documents = api_documents()
    hashes = {name: hashlib.sha512(document).hexdigest().upper() for name, document in documents.items()}
    shared = zstandard.ZstdCompressionDict(documents[CORE], dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    parameters = zstandard.ZstdCompressionParameters.from_level(  # pyright: ignore[reportUnknownMemberType]
        ZSTD_LEVEL, window_log=ZSTD_WINDOW_BITS
    )
    files = {
        TARGET / "discovery.json": (json.dumps(facts, separators=(",", ":")) + "\n").encode(),
        TARGET / "openapi.json": (json.dumps(hashes, indent=0) + "\n").encode(),
    }
    for name, document in documents.items():
        dictionary = None if name == CORE else shared
        compressor = zstandard.ZstdCompressor(compression_params=parameters, dict_data=dictionary)
        files[TARGET / f"{name}.json.zst"] = compressor.compress(document)
    return files
