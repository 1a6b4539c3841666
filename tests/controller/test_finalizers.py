"""Finalizers survive a crash at any point, and never hold or free the wrong object."""

from datetime import UTC, datetime

import pytest

from steersman.controller import Finalizer, FinalizerState, RequeueError, Result, add_finalizers, run_finalizers
from steersman.models import ObjectMeta

from .api import Api
from .kinds import App

DELETED = datetime(2026, 1, 31, tzinfo=UTC)


class Crash(BaseException):
    """The process is gone."""


class ExternalResources:
    """Two things outside the cluster that must be cleaned up, the bucket before the account."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.log: list[str] = []
        self.buckets = 2
        self.finalizers = [
            Finalizer("tests.steersman.dev/bucket", self.empty_bucket),
            Finalizer("tests.steersman.dev/account", self.close_account),
        ]

    async def empty_bucket(self, app: App) -> Result | None:
        self.log.append("bucket")
        if self.buckets:
            self.buckets -= 1
            return Result(requeue_after=5)
        return None

    def close_account(self, app: App) -> None:
        self.log.append("account")

    async def step(self) -> FinalizerState:
        return (await run_finalizers(self.api, self.api.read(App, "web"), self.finalizers)).state

    def delete(self) -> None:
        body = self.api.objects["web"]
        body["metadata"]["deletionTimestamp"] = "2026-01-31T00:00:00Z"
        self.api.put(body)

    def held_by(self) -> list[str]:
        return [f.rpartition("/")[2] for f in self.api.objects["web"]["metadata"].get("finalizers", [])]


@pytest.fixture
def env() -> ExternalResources:
    api = Api()
    api.put(App(metadata=ObjectMeta(name="web", namespace="prod")))
    return ExternalResources(api)


async def test_finalizers_are_added_first_and_in_a_pass_of_their_own(env: ExternalResources):
    """A5: finalizers are added before the first side effect and in a pass of their own."""
    assert await env.step() is FinalizerState.ADDED
    assert env.held_by() == ["bucket", "account"]
    assert len(env.api.requests) == 1
    assert await env.step() is FinalizerState.READY
    assert len(env.api.requests) == 1


async def test_cleanups_run_in_order_over_as_many_passes_as_they_take(env: ExternalResources):
    """A5: several run in a fixed order; each may take many passes."""
    await env.step()
    env.delete()
    assert await env.step() is FinalizerState.PENDING
    assert await env.step() is FinalizerState.PENDING
    assert env.held_by() == ["bucket", "account"]
    assert await env.step() is FinalizerState.DONE
    assert env.log == ["bucket", "bucket", "bucket", "account"]
    assert "web" not in env.api.objects


async def test_a_pending_cleanup_says_when_to_look_again(env: ExternalResources):
    """A5: each may take many passes."""
    await env.step()
    env.delete()
    outcome = await run_finalizers(env.api, env.api.read(App, "web"), env.finalizers)
    assert outcome.requeue_after == 5


async def test_nothing_is_added_to_an_object_that_is_being_deleted(env: ExternalResources):
    """A5: never added to an object that is being deleted."""
    env.delete()
    assert await env.step() is FinalizerState.DONE
    assert env.api.requests == []


async def test_nothing_is_added_when_the_deletion_came_after_the_read(env: ExternalResources):
    """A5: the patch tests the version that was read, so a deletion in between is noticed."""
    stale = env.api.read(App, "web")
    env.delete()
    with pytest.raises(RequeueError, match="has changed since"):
        await add_finalizers(env.api, stale, ["tests.steersman.dev/bucket"])
    assert env.held_by() == []


async def test_removal_is_a_tested_patch_that_spares_the_finalizers_of_others(env: ExternalResources):
    """A5: removed with a tested JSON patch."""
    await env.step()
    stale_body = env.api.objects["web"]
    stale_body["metadata"]["finalizers"].insert(0, "other.dev/hold")
    env.api.put(stale_body)
    env.delete()
    env.buckets = 0
    stale = env.api.read(App, "web")
    body = env.api.objects["web"]
    body["metadata"]["finalizers"].remove("other.dev/hold")
    body["metadata"]["finalizers"].append("other.dev/late")
    env.api.put(body)
    with pytest.raises(RequeueError):
        await run_finalizers(env.api, stale, env.finalizers)
    assert env.held_by() == ["bucket", "account", "late"]
    assert await env.step() is FinalizerState.DONE
    assert env.held_by() == ["late"]


async def test_a_namesake_is_not_freed(env: ExternalResources):
    """A5: the patch tests the uid."""
    await env.step()
    env.delete()
    env.buckets = 0
    stale = env.api.read(App, "web")
    env.api.objects["web"]["metadata"]["uid"] = "another"
    with pytest.raises(RequeueError):
        await run_finalizers(env.api, stale, env.finalizers)
    assert env.held_by() == ["bucket", "account"]


async def test_a_cleanup_that_raises_removes_nothing(env: ExternalResources):
    """A5: what failed is tried again, and holds the object until it succeeds."""
    await env.step()
    env.delete()

    async def broken(app: App) -> None:
        raise OSError("no route to host")

    with pytest.raises(OSError, match="no route"):
        await run_finalizers(env.api, env.api.read(App, "web"), [Finalizer("tests.steersman.dev/bucket", broken)])
    assert env.held_by() == ["bucket", "account"]


@pytest.mark.parametrize("crash_at", range(12))
async def test_a_crash_between_any_two_steps_is_survived(env: ExternalResources, crash_at: int):
    """A5: a crash before or after any request or cleanup repeats at most that cleanup, and ends the same."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == crash_at + 1:
            raise Crash

    patch = env.api.patch

    async def crashing_patch(*args, **kwargs):
        step()
        answer = await patch(*args, **kwargs)
        step()
        return answer

    env.api.patch = crashing_patch  # type: ignore[method-assign]
    empty, close = env.empty_bucket, env.close_account

    async def crashing_empty(app: App) -> Result | None:
        step()
        result = await empty(app)
        step()
        return result

    env.finalizers = [
        Finalizer("tests.steersman.dev/bucket", crashing_empty),
        Finalizer("tests.steersman.dev/account", close),
    ]
    env.buckets = 1
    deleted = False
    for _ in range(20):
        if "web" not in env.api.objects:
            break
        try:
            state = await env.step()
        except Crash:
            continue
        if state is FinalizerState.READY and not deleted:
            deleted = True
            env.delete()
    assert "web" not in env.api.objects
    assert env.buckets == 0
    assert env.log.count("account") <= 2
    assert env.log.index("account") > max(n for n, what in enumerate(env.log) if what == "bucket")


async def test_an_object_that_is_gone_holds_nobody_up(env: ExternalResources):
    """A5: removal from a deleted object succeeds."""
    await env.step()
    env.delete()
    env.buckets = 0
    stale = env.api.read(App, "web")
    del env.api.objects["web"]
    assert (await run_finalizers(env.api, stale, env.finalizers)).state is FinalizerState.DONE


def test_a_name_must_be_qualified():
    with pytest.raises(ValueError, match="qualified name"):
        Finalizer("cleanup", lambda obj: None)
