"""Server-side apply of one object in several versions: ownership and conflicts, on both servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from .harness import Both
from .test_admission import hooks as hooks
from .test_match_policy import AUTOSCALER, Kinds
from .test_match_policy import kinds as kinds

APPLY = "application/apply-patch+yaml"


async def applied(both: Both, path: str, steps: Sequence[tuple[str, str, dict[str, Any], str]]) -> None:
    """Apply in turn: (version, manager, body, more parameters); every answer must be the same."""
    for version, manager, body, more in steps:
        await both.same(
            "PATCH", f"{path.format(version=version)}?fieldManager={manager}{more}", body, content_type=APPLY
        )
    for version in dict.fromkeys(step[0] for step in steps):
        await both.same("GET", path.format(version=version))


@pytest.mark.parametrize("strategy", ["None", "Webhook"])
async def test_custom_resources_are_applied_in_two_versions(both: Both, kinds: Kinds, strategy: str) -> None:
    plural = f"applied{strategy}".lower()
    path = (await kinds.serve(plural, strategy)).replace("{ns}", both.namespace)
    names = {"v1": "size", "v2": "replicas" if strategy == "Webhook" else "size"}

    def body(version: str, size: int | None, **labels: str) -> dict[str, Any]:
        spec = {} if size is None else {"spec": {names[version]: size}}
        made = {"apiVersion": f"example.com/{version}", "kind": plural.capitalize(), "metadata": {"name": "x"}, **spec}
        return {**made, "metadata": {"name": "x", "labels": labels}} if labels else made

    steps = [
        ("v1", "one", body("v1", 1, a="b"), ""),
        ("v2", "two", body("v2", 1, c="d"), ""),
        ("v2", "two", body("v2", 2, c="d"), ""),
        ("v2", "two", body("v2", 2, c="d"), "&force=true"),
        ("v1", "one", body("v1", 3), ""),
        ("v1", "one", body("v1", 2), ""),
        ("v2", "two", body("v2", None, c="d"), ""),
        ("v1", "one", body("v1", None), ""),
    ]
    if strategy == "None":  # a conversion webhook is sent an object without metadata by the real server, and fails
        steps[6:6] = [("v2", "one", body("v2", 2), "")]
        steps.append(("v2", "one", body("v2", None), ""))
    await applied(both, path.replace("/v1/", "/{version}/") + "/x", steps)


async def test_built_in_kinds_are_applied_in_two_versions(both: Both) -> None:
    def body(version: str, most: int | None, percent: int | None = None) -> dict[str, Any]:
        spec: dict[str, Any] = {"scaleTargetRef": AUTOSCALER["spec"]["scaleTargetRef"]}
        if most is not None:
            spec["maxReplicas"] = most
        if percent is not None and version == "v1":
            spec["targetCPUUtilizationPercentage"] = percent
        elif percent is not None:
            target = {"type": "Utilization", "averageUtilization": percent}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        return {
            "apiVersion": f"autoscaling/{version}",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a"},
            "spec": spec,
        }

    await applied(
        both,
        f"/apis/autoscaling/{{version}}/namespaces/{both.namespace}/horizontalpodautoscalers/a",
        [
            ("v1", "one", body("v1", 3, 50), ""),
            ("v2", "two", body("v2", 3, 50), ""),
            ("v2", "two", body("v2", 4, 60), ""),
            ("v2", "two", body("v2", 4, 60), "&force=true"),
            ("v1", "one", body("v1", 4), ""),
            ("v2", "one", body("v2", 4), ""),
            ("v2", "two", body("v2", 4), ""),
        ],
    )
