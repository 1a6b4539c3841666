"""Ask a real API server again what the cases are worth: `python -m tests.cluster.kinds.record_workloads`.

Rewrites the answers in recorded_workloads.json; new cases are lines with `case`, `kind` and `sent` alone.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from steersman.testing import ControlPlane
from tests.conformance.conftest import _server

RECORDED = Path(__file__).parent / "recorded_workloads.json"
_GROUPS = {"Job": "batch", "CronJob": "batch", "Pod": "", "PodTemplate": "", "ReplicationController": ""}
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NOW = re.compile(r"20(2[6-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def fixed(body: Any) -> Any:
    """A response without values that differ between runs, and without the additions of admission to Pods."""
    made = json.loads(_NOW.sub("NOW", _UID.sub("UID", json.dumps(body))))
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace"):
        made.get("metadata", {}).pop(field, None)
    if made.get("kind") == "Pod":
        tolerations = [item for item in made["spec"].pop("tolerations", []) if item.get("tolerationSeconds") != 300]
        if tolerations:
            made["spec"]["tolerations"] = tolerations
    return made


async def record(records: list[dict[str, Any]]) -> None:
    with ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        async with _server("real", plane) as real:
            await real.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "w"}})
            await real.ask("POST", "/api/v1/namespaces/w/serviceaccounts", {"metadata": {"name": "default"}})
            for item in records:
                group = _GROUPS.get(item["kind"], "apps")
                root = f"/apis/{group}/v1" if group else "/api/v1"
                path = f"{root}/namespaces/w/{item['kind'].lower()}s?dryRun=All"
                answer = await real.ask("POST", path, item["sent"])
                for field in ("answer", "causes"):
                    item.pop(field, None)
                item["code"], body = answer.code, fixed(answer.body)
                if answer.code == 422:
                    item["causes"] = [[it["field"], it["reason"], it["message"]] for it in body["details"]["causes"]]
                else:
                    item["answer"] = body
                texts = [re.sub(r'^299 \S+ "(.*)"$', r"\1", text) for text in answer.warnings]
                item["warnings"] = [text.replace('\\"', '"').replace("\\\\", "\\") for text in texts]


if __name__ == "__main__":
    cases = json.loads(RECORDED.read_text())
    asyncio.run(record(cases))
    lines = ",\n".join(" " + json.dumps(case, ensure_ascii=False) for case in cases)
    RECORDED.write_text(f"[\n{lines}\n]\n")
