"""Webhooks, networking, nodes and the rarer kinds on both servers."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.devcluster.kinds import cases

from .harness import Both
from .kinds import play, sequences
from .steps import PODS

HOOKS = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture
async def unhooked(both: Both) -> AsyncIterator[None]:
    """Takes away the webhooks that a test has registered, which nobody answers, and waits until nobody asks them."""
    yield
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        await both.each("DELETE", f"{HOOKS}/{kind}")
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with asyncio.timeout(90):
        while any(answer.code == 500 for answer in await both.each("POST", f"{PODS}?dryRun=All", body)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("requests", sequences([*cases.HOOK_CASES, *cases.NETWORK, *cases.REST]))
async def test_rarer_kinds_behave_alike(both: Both, requests: list[cases.Case]):
    await play(both, requests)
