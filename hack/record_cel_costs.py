"""Record what expressions cost on kube-apiserver, for `tests/cluster/cel/test_costs.py`.

    python hack/record_cel_costs.py

Runs `hack/celcost` with the modules that `hack/controlplane/go.mod` pins. Needs Go.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.cluster.cel.cost_expressions import EXPRESSIONS, SCHEMA, VALUE  # noqa: E402


def costs(schema: dict[str, Any] | None) -> dict[str, int]:
    """The costs of the expressions that compile for `self` of this type."""
    asked = json.dumps({"schema": schema, "value": VALUE, "expressions": EXPRESSIONS})
    command = ["go", "run", "-mod=readonly", str(ROOT / "hack/celcost/main.go")]
    ran = subprocess.run(
        command, cwd=ROOT / "hack/controlplane", input=asked, capture_output=True, text=True, check=True
    )
    answers: list[dict[str, Any]] = json.loads(ran.stdout)
    return {e: each["cost"] for e, each in zip(EXPRESSIONS, answers, strict=True) if "cost" in each}


def main() -> None:
    recorded = {"typed": costs(SCHEMA), "dynamic": costs(None)}
    target = ROOT / "tests/cluster/cel/data/actual_costs.json"
    target.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
