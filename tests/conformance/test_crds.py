"""CustomResourceDefinitions: both servers take and refuse the same ones, in the same words."""

import copy
from typing import Any

import pytest

from .crd_cases import DEFINITIONS, definition, obj
from .harness import Both

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
async def test_a_definition_is_answered_alike(both: Both, name: str) -> None:
    await both.same("POST", f"{PATH}?dryRun=All", copy.deepcopy(DEFINITIONS[name]))


async def test_a_definition_cannot_change_its_group_or_plural(both: Both) -> None:
    made = named("immutables")
    await both.each("POST", PATH, made)
    made["spec"]["names"]["plural"] = "others"
    made["metadata"]["resourceVersion"] = "1"
    await both.same(
        "PATCH",
        f"{PATH}/immutables.example.com",
        {"spec": {"names": {"plural": "others"}}},
        content_type="application/merge-patch+json",
    )
    await both.each("DELETE", f"{PATH}/immutables.example.com")


def named(plural: str, schema: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A definition of a kind of its own."""
    made = definition(schema or obj({}), **changes)
    made["metadata"]["name"] = f"{plural}.example.com"
    kind = plural.capitalize()
    made["spec"]["names"] = {"plural": plural, "singular": f"{plural}one", "kind": kind, "listKind": f"{kind}List"}
    return made
