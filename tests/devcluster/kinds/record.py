"""Ask a real API server what the cases are worth: `python -m tests.devcluster.kinds.record` rewrites recorded.json.

What differs from run to run (uids, versions, times, addresses that nobody asked for) is replaced by fixed values.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from tests.conformance.conftest import _server

from steersman.devcluster.patch import merge_patch
from steersman.testing.controlplane import ControlPlane

from .cases import CASES

RECORDED = Path(__file__).parent / "recorded.json"
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NOW = re.compile(r"20(2[1-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def fixed(value: Any) -> Any:
    """An answer without what is new in every run."""
    text = _NOW.sub("2026-01-01T00:00:00Z", _UID.sub("00000000-0000-0000-0000-000000000001", json.dumps(value)))
    made = json.loads(text)
    if isinstance(made, dict) and isinstance(made.get("metadata"), dict):
        made["metadata"].pop("managedFields", None)
        if "resourceVersion" in made["metadata"]:
            made["metadata"]["resourceVersion"] = "1"
    return made


async def record() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    with ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        plane.create_namespace("t")
        async with _server("real", plane) as server:
            for case in CASES:
                entry: dict[str, Any] = {"method": case.method, "path": case.path, "sent": case.body}
                body: Any = case.body
                if case.method == "PUT":
                    old = (await server.ask("GET", case.path.removesuffix("/status").removesuffix("/finalize"))).body
                    body = merge_patch(old, case.body)
                    entry["old"], entry["sent"] = fixed(old), fixed(body)
                answer = await server.ask(case.method, case.path, body)
                entry |= {"code": answer.code, "answer": fixed(answer.body), "warnings": list(answer.warnings)}
                records.append(shortened(entry))
    return records


def shortened(entry: Any) -> Any:
    """Long runs of one letter as `{"repeat": [letter, count]}`."""
    if isinstance(entry, dict):
        return {key: shortened(value) for key, value in entry.items()}
    if isinstance(entry, list):
        return [shortened(value) for value in entry]
    if isinstance(entry, str) and len(entry) > 400 and len(set(entry)) == 1:
        return {"repeat": [entry[0], len(entry)]}
    return entry


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in asyncio.run(record()))
    RECORDED.write_text(f"[\n{lines}\n]\n")
