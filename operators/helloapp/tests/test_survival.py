"""The operator survives a crash at every write, lost responses, conflicts, and late and missed events."""

from __future__ import annotations

from typing import Any

import pytest
from steersman.testing.explore import World, explored


def helloapp(image: str, size: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps.anupam.com/v1",
        "kind": "HelloApp",
        "metadata": {"name": "a"},
        "spec": {"image": image, "size": size},
    }


@pytest.mark.slow
@explored(budget="30s")
async def test_a_helloapp_that_is_created_changed_repaired_and_deleted(world: World) -> None:
    await world.operator("helloapp:operator")
    await world.apply(helloapp("nginx:1.27", 1))
    await world.settled()
    await world.apply(helloapp("nginx:1.28", 2))
    await world.settled()
    await world.delete("deployment", "a")
    await world.settled()
    await world.delete("helloapp", "a")
    await world.settled()
