"""The needs of controllers such as Kubernetes' own: indexes, mappers that read, objects that are being deleted."""

from __future__ import annotations

import pytest

from steersman import Context, Operator
from steersman.k8s import ConfigMap, Secret
from steersman.models import Key, MergePatch
from steersman.operator import DeclarationError, Watch


def team_of(secret: Secret) -> str | None:
    return secret.metadata.labels.get("team")


def other(secret: Secret) -> str | None:
    return None


def test_an_index_has_one_function():
    operator = Operator("indexes")
    operator.index("team", Secret, team_of)
    operator.index("team", Secret, team_of)
    with pytest.raises(DeclarationError, match="index 'team' of Secret is declared already"):
        operator.index("team", Secret, other)
    assert [i.name for i in operator.indexes] == ["team"]


@pytest.mark.realcluster
async def test_a_declared_index_finds_objects_and_a_mapper_reads_the_cache(env):
    """A Secret wakes every ConfigMap of its team, which the mapper finds in the cache."""
    operator = Operator("built-in")
    operator.index("team", Secret, team_of)
    seen: dict[str, list[str]] = {}

    def to_maps(secret: Secret, ctx: Context) -> list[Key]:
        maps = ctx.list(ConfigMap, namespace=secret.metadata.namespace)
        return [Key(m.metadata.namespace, m.metadata.name) for m in maps if m.data.get("team") == team_of(secret)]

    @operator.controller(watches=[Watch(Secret, to=to_maps)])
    async def reconcile(config: ConfigMap, ctx: Context) -> None:
        found = ctx.list(Secret, index=("team", config.data.get("team", "")))
        seen[config.metadata.name] = sorted(s.metadata.name for s in found)

    async with env.running(operator):
        for team in ("red", "blue"):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": team, "namespace": env.namespace}}
            await env.client.create({**body, "data": {"team": team}})
        await env.eventually(lambda: {"red", "blue"} <= seen.keys(), "both are seen")
        metadata = {"name": "s", "namespace": env.namespace, "labels": {"team": "red"}}
        await env.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        await env.eventually(lambda: seen["red"] == ["s"], "red has it")
        assert seen["blue"] == []


@pytest.mark.realcluster
async def test_objects_that_are_being_deleted_are_reconciled_on_request(env):
    operator = Operator("last-words")
    words: list[tuple[str, bool]] = []

    @operator.controller(name="silent")
    async def silent(config: ConfigMap) -> None:
        words.append(("silent", config.metadata.deletion_timestamp is not None))

    @operator.controller(name="present", terminating=True)
    async def present(config: ConfigMap, ctx: Context) -> None:
        leaving = config.metadata.deletion_timestamp is not None
        words.append(("present", leaving))
        if leaving:
            await ctx.patch(config, MergePatch({"metadata": {"finalizers": None}}))

    async with env.running(operator):
        metadata = {"name": "c", "namespace": env.namespace, "finalizers": ["example.com/wait"]}
        await env.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        await env.eventually(lambda: ("present", False) in words and ("silent", False) in words, "both see it")
        await env.client.delete(ConfigMap, "c", namespace=env.namespace)
        await env.eventually(lambda: ("present", True) in words, "one sees it go")

        async def gone():
            return not await env.client.exists(ConfigMap, "c", namespace=env.namespace)

        await env.eventually(gone, "it is gone")
        assert ("silent", True) not in words
