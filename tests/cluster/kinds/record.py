"""Ask a real API server what the cases are worth: `python -m tests.cluster.kinds.record` rewrites recorded.json.

Values that differ between runs (uids, versions, times, allocated addresses) are replaced by fixed values.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from steersman.testing import ControlPlane
from steersman_cluster.patch import merge_patch
from tests.conformance.conftest import _server

from .cases import CASES

RECORDED = Path(__file__).parent / "recorded.json"
TABLES = Path(__file__).parent / "recorded_tables.json"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NOW = re.compile(r"20(2[1-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def fixed(value: Any) -> Any:
    """A response without values that differ between runs."""
    text = _NOW.sub("2026-01-01T00:00:00Z", _UID.sub("00000000-0000-0000-0000-000000000001", json.dumps(value)))
    made = json.loads(text)
    if isinstance(made, dict) and isinstance(made.get("metadata"), dict):
        made["metadata"].pop("managedFields", None)
        if "resourceVersion" in made["metadata"]:
            made["metadata"]["resourceVersion"] = "1"
    return made


async def record() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    records: list[dict[str, Any]] = []
    tables: list[dict[str, Any]] = []
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
            for path in sorted({case.path for case in CASES if case.method == "POST"}):
                answer = await server.ask("GET", f"{path}?includeObject=Object", headers=TABLE)
                tables.append({"path": path, "columns": _columns(answer.body), "rows": _rows(answer.body)})
    return records, tables


def _columns(table: Any) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key != "description"} for item in table["columnDefinitions"]]


def _rows(table: Any) -> list[dict[str, Any]]:
    """At most eight of each kind; those that the server made for itself say little new."""
    rows = [{"cells": row["cells"], "object": fixed(row["object"])} for row in table["rows"] or []]
    return shortened([row for row in rows if "bootstrapping" not in str(row["object"])][:8])


def shortened(entry: Any) -> Any:
    """Long runs of one letter as `{"repeat": [letter, count]}`."""
    if isinstance(entry, dict):
        return {key: shortened(value) for key, value in entry.items()}
    if isinstance(entry, list):
        return [shortened(value) for value in entry]
    if isinstance(entry, str) and len(entry) > 400 and len(set(entry)) == 1:
        return {"repeat": [entry[0], len(entry)]}
    return entry


def _write(path: Path, entries: list[dict[str, Any]]) -> None:
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    path.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    answers, listed = asyncio.run(record())
    _write(RECORDED, answers)
    _write(TABLES, listed)
