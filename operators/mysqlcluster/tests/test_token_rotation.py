"""The rotation of the token of the agents: its steps as a pure function, with simulated servers, and on an agent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from steersman import MergePatch
from steersman.k8s import Secret
from steersman.k8s.events_v1 import Event
from steersman.testing import simulated

from mysqlcluster.agent.client import AgentClient
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.backup.archiver_settings import read_tokens
from mysqlcluster.credentials import accepted_tokens, generated, revision, token_revision
from mysqlcluster.token_rotation import OVERLAP, ROTATE_TOKEN, TokenChange, next_change
from tests.members import SECRETS, Members, members_of, until

from .test_controller import fetched, running

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def applied(data: Mapping[str, bytes], change: TokenChange) -> dict[str, bytes]:
    return {key: value for key, value in {**data, **change.data}.items() if value is not None}


def changed(notes: Mapping[str, str], change: TokenChange) -> dict[str, str]:
    return {key: value for key, value in {**notes, **change.annotations}.items() if value is not None}


def steps(data: Mapping[str, bytes]) -> list[dict[str, bytes]]:
    """Return the content of the Secret before and after each step of a rotation."""
    found, notes, now = [dict(data)], {}, NOW
    for _ in range(3):
        change = next_change(found[-1], notes, "january", [token_revision(found[-1])] * 4, now)
        assert change is not None
        found.append(applied(found[-1], change))
        notes, now = changed(notes, change), now + OVERLAP
    assert change.completed
    assert next_change(found[-1], notes, "january", [token_revision(found[-1])] * 4, now) is None
    return found


def test_a_process_that_has_seen_the_last_step_and_one_that_has_not_accept_each_others_tokens():
    contents = steps(generated())
    for earlier, later in itertools.pairwise(contents):
        assert earlier["agent-token"].decode() in accepted_tokens(later)
        assert later["agent-token"].decode() in accepted_tokens(earlier)
    first, last = contents[0], contents[-1]
    assert first["agent-token"] not in last.values()
    assert set(first) == set(last)
    assert revision(first) == revision(last)  # the passwords stay


def test_a_step_waits_for_every_agent_and_for_the_overlap():
    data = generated()
    begun = next_change(data, {}, "january", [], NOW)
    assert begun is not None
    content, notes = applied(data, begun), changed({}, begun)
    seen, late = [token_revision(content)] * 2, NOW + OVERLAP
    assert next_change(content, notes, "january", [*seen, token_revision(data)], late) is None
    assert next_change(content, notes, "january", [*seen, ""], late) is None
    assert next_change(content, notes, "january", seen, late - timedelta(seconds=1)) is None
    assert next_change(content, notes, "january", seen, late) is not None


def test_without_a_request_the_token_stays():
    data = generated()
    assert next_change(data, {}, "", [], NOW) is None
    assert next_change(data, {ROTATE_TOKEN: "january"}, "january", [], NOW) is None


@simulated(seed=13)
async def test_an_annotation_replaces_the_token_and_no_member_is_lost_meanwhile(simulation):
    servers = await running(simulation)

    async def content() -> Mapping[str, bytes]:
        return (await simulation.client.get(Secret, "db-accounts", namespace="default")).data

    before, epoch = await content(), (await fetched(simulation)).status.epoch
    patch = MergePatch({"metadata": {"annotations": {ROTATE_TOKEN: "january"}}})
    await simulation.client.patch(MySQLCluster, "db", patch, namespace="default")
    for _ in range(3):
        await simulation.passes(seconds=5)
        seen = token_revision(await content())
        servers.members = {name: replace(each, token_revision=seen) for name, each in servers.members.items()}
        await simulation.passes(seconds=OVERLAP.total_seconds() + 5)
    after = await content()
    assert set(after) == set(before)
    assert {key for key in after if after[key] != before[key]} == {"agent-token"}
    status = (await fetched(simulation)).status
    assert (status.phase, status.epoch) == ("Running", epoch)
    text = str(list(await simulation.client.list(Event, namespace="default")))
    assert "AgentTokenRotated" in text
    assert not any(each["agent-token"].decode() in text for each in (before, after))


def test_an_archiver_accepts_the_tokens_of_its_mounted_secret(tmp_path: Path):
    (tmp_path / "agent-token").write_text("sent")
    assert accepted_tokens(read_tokens(tmp_path)) == ("sent",)
    (tmp_path / "agent-token-next").write_text("next\n")
    tokens = read_tokens(tmp_path)
    assert accepted_tokens(tokens) == ("sent", "next")
    assert token_revision(tokens) == token_revision({"agent-token": b"sent", "agent-token-next": b"next"})


# On a real agent.


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 1) as members:
        yield members


async def accepts(members: Members, token: str) -> bool:
    async with AgentClient(members.url, lambda: token) as client:
        return (await client.state("m-0")).reachable


async def revision_of(members: Members, token: str) -> str:
    async with AgentClient(members.url, lambda: token) as client:
        return (await client.state("m-0")).token_revision


@pytest.mark.slow
async def test_an_agent_accepts_the_tokens_of_each_step(one: Members):
    first, *others = steps({key: value.encode() for key, value in SECRETS.items()})
    former, new = first["agent-token"].decode(), others[-1]["agent-token"].decode()
    async with one.client() as client:
        await until(client, "m-0", lambda state: state.reachable)
    accepted: list[tuple[bool, bool]] = []
    before = set(first)
    for content in others:
        for key in before - set(content):
            (one.directory / "secrets" / key).unlink()
        one.write_secrets({key: value.decode() for key, value in content.items()})
        before = set(content)
        accepted.append((await accepts(one, former), await accepts(one, new)))
        assert await revision_of(one, content["agent-token"].decode()) == token_revision(content)
    assert accepted == [(True, True), (True, True), (False, True)]
