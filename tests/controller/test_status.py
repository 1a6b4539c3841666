"""A status is written once when it changes, and never over the change of another writer."""

from datetime import UTC, datetime, timedelta

import pytest

from steersman.client.errors import Conflict
from steersman.controller import NoStatusSubresourceError, TerminalError, patch_status
from steersman.models import Condition, ObjectMeta, replace
from steersman.models.conditions import ready_when

from .api import Api
from .kinds import App, AppStatus, Plain

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def noon() -> datetime:
    return NOON


def stored(api: Api) -> App:
    return api.put(App(metadata=ObjectMeta(name="web", namespace="prod", generation=3)))


async def test_a_status_is_written_once_with_the_observed_generation():
    """A2: status is written only when it changes, in one request, with `observedGeneration`."""
    api = Api()
    app = stored(api)
    app = await patch_status(api, app, AppStatus(ready=2), now=noon)
    assert api.sent("patch status") == [
        {"metadata": {"uid": "uid-web"}, "status": {"observedGeneration": 3, "ready": 2}}
    ]
    assert app.status == api.read(App, "web").status
    for _ in range(3):
        app = await patch_status(api, app, AppStatus(ready=2), now=noon)
    assert len(api.requests) == 1


async def test_conditions_keep_their_transition_time_while_their_status_stays():
    """A2: conditions keep their transition time."""
    api = Api()
    app = await patch_status(api, stored(api), AppStatus(conditions=ready_when(False, message="1 of 2")), now=noon)
    add_at = NOON + timedelta(hours=1)
    app = await patch_status(api, app, AppStatus(conditions=ready_when(False, message="1 of 3")), now=lambda: add_at)
    (condition,) = app.status.conditions
    assert (condition.last_transition_time, condition.message, condition.observed_generation) == (NOON, "1 of 3", 3)
    app = await patch_status(api, app, AppStatus(conditions=ready_when(True)), now=lambda: add_at)
    assert app.status.conditions[0].last_transition_time == add_at
    same = await patch_status(api, app, AppStatus(conditions=ready_when(True)), now=lambda: add_at + timedelta(days=1))
    assert same is app
    assert len(api.requests) == 3


async def test_a_list_is_only_replaced_in_the_version_that_was_read():
    """A3: changes are patches, with an optimistic lock where lists are concerned."""
    api = Api()
    app = stored(api)
    stale = app
    app = await patch_status(api, app, AppStatus(pods=("a",)), now=noon)
    assert api.sent("patch status")[0]["metadata"]["resourceVersion"] == stale.metadata.resource_version
    with pytest.raises(Conflict):
        await patch_status(api, stale, AppStatus(pods=("b",)), now=noon)
    app = await patch_status(api, app, AppStatus(), now=noon)
    assert api.sent("patch status")[2]["status"] == {"pods": None}
    assert "resourceVersion" in api.sent("patch status")[2]["metadata"]


async def test_fields_that_the_class_does_not_know_survive():
    """A3: no write may lose fields that the caller's types don't know."""
    api = Api()
    app = stored(api)
    body = api.objects["web"]
    body["status"] = {"phase": "Blue", "ready": 0}
    api.put(body)
    await patch_status(api, app, AppStatus(ready=2), now=noon)
    assert api.objects["web"]["status"]["phase"] == "Blue"


async def test_a_namesake_is_not_written_to():
    """A2: the uid goes with the patch, so a re-created object is not told its predecessor's status."""
    api = Api()
    app = stored(api)
    api.objects["web"]["metadata"]["uid"] = "another"
    with pytest.raises(Conflict):
        await patch_status(api, app, AppStatus(ready=2), now=noon)


async def test_a_kind_without_status_subresource_is_a_terminal_error_that_says_what_to_do():
    """A2: a CRD without status is a clear message, not a crash loop."""
    api = Api(status_subresource=False)
    with pytest.raises(NoStatusSubresourceError, match=r"apps\.tests\.steersman\.dev has no status subres") as caught:
        await patch_status(api, stored(api), AppStatus(ready=2), now=noon)
    assert isinstance(caught.value, TerminalError)


async def test_an_object_that_is_gone_needs_no_status():
    """A2: an object that was deleted meanwhile has no status write."""
    api = Api()
    app = stored(api)
    del api.objects["web"]
    assert await patch_status(api, app, AppStatus(ready=2), now=noon) is None


async def test_a_class_without_status_is_a_mistake_of_the_program():
    with pytest.raises(TypeError, match="Plain has no status"):
        await patch_status(Api(), Plain(metadata=ObjectMeta(name="x")), AppStatus())


async def test_a_users_own_times_and_generations_are_kept():
    """A2: what the reconcile filled in itself is not overwritten."""
    api = Api()
    mine = Condition(type="Ready", status="True", last_transition_time=NOON, observed_generation=1)
    app = await patch_status(api, stored(api), AppStatus(observed_generation=2, conditions=(mine,)))
    assert app.status.observed_generation == 2
    assert app.status.conditions == (mine,)
    assert replace(app.status, observed_generation=2) == app.status
