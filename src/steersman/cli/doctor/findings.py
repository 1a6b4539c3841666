"""The findings of `steersman doctor`, and the requests of its checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from steersman.client import Client

__all__ = ["CRDS", "Finding", "Level", "get", "post"]

Level = Literal["ok", "warn", "fail", "skip"]
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check; `hint` is the suggested solution."""

    level: Level
    check: str
    text: str
    hint: str = ""


async def get(client: Client, path: str) -> dict[str, Any]:
    """Read a path, which may have a query with plain values. Raises `ClientError`."""
    path, _, text = path.partition("?")
    query = tuple(
        (key, value.replace("%3D", "=")) for key, _, value in (p.partition("=") for p in text.split("&") if p)
    )
    return json.loads((await client.raw.request("GET", path, query=query)).body)


async def post(client: Client, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Create a review, which stores nothing. Raises `ClientError`."""
    answer = await client.raw.request("POST", path, body=json.dumps(body).encode(), idempotent=True)
    return json.loads(answer.body)
