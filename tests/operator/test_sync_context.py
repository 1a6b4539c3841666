"""`SyncContext` has what `Context` has, in a form that blocks."""

import asyncio
import inspect

import pytest

from steersman import Context, SyncContext

LOOP_ONLY = {"client", "cache"}
"""These work only in the event loop; a thread uses `SyncContext.run`."""


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_method_of_a_context_is_there_for_threads():
    assert public(SyncContext) - {"run"} == public(Context) - LOOP_ONLY


@pytest.mark.parametrize("name", sorted(n for n in public(SyncContext) - {"run"} if callable(getattr(SyncContext, n))))
def test_a_method_has_the_signature_of_the_context_and_does_not_need_await(name):
    theirs, ours = getattr(Context, name), getattr(SyncContext, name)
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert ours.__doc__ == theirs.__doc__
    assert not inspect.iscoroutinefunction(ours)


class Recording:
    """Answers like a Context, and says in which thread it was called."""

    async def fetch(self, kind, name, *, namespace=None):
        return kind, name, namespace, asyncio.get_running_loop()


async def test_a_call_from_a_thread_runs_in_the_loop():
    loop = asyncio.get_running_loop()
    context = SyncContext(Recording(), loop)
    seen = await asyncio.to_thread(context.run, lambda ctx: ctx.fetch("Pod", "web", namespace="shop"))
    assert seen == ("Pod", "web", "shop", loop)
