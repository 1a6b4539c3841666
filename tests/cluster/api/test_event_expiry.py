"""Events live for an hour, and nothing else that a long-running cluster keeps grows without a bound."""

from steersman.testing import Simulation, simulated
from steersman_cluster.auth.attributes import Attributes
from steersman_cluster.auth.audit import Log
from steersman_cluster.strategy import User

from .test_history import CONFIG_MAPS, EVENTS, ask, made


@simulated(controllers=False, nodes=0)
async def test_an_event_is_deleted_an_hour_after_its_last_write(simulation: Simulation) -> None:
    for name in ("kept", "expired"):
        await made(simulation, EVENTS, name)
    await simulation.passes(minutes=40)
    await ask(simulation, "PUT", f"{EVENTS}/kept", {**await ask(simulation, "GET", f"{EVENTS}/kept"), "count": 2})
    await simulation.passes(minutes=19)
    assert len((await ask(simulation, "GET", EVENTS))["items"]) == 2
    await simulation.passes(minutes=2)
    assert [item["metadata"]["name"] for item in (await ask(simulation, "GET", EVENTS))["items"]] == ["kept"]
    await simulation.passes(minutes=40)
    assert (await ask(simulation, "GET", EVENTS))["items"] == []


@simulated(controllers=False, nodes=0)
async def test_watches_are_told_of_expired_events(simulation: Simulation) -> None:
    await made(simulation, EVENTS, "one")
    await simulation.passes(minutes=59)
    revision = await made(simulation, CONFIG_MAPS, "any")
    await simulation.passes(minutes=2)
    told = await ask(simulation, "GET", EVENTS, watch="1", resourceVersion=revision, timeoutSeconds="1")
    assert (told["type"], told["object"]["metadata"]["name"]) == ("DELETED", "one")


def test_an_audit_log_with_a_file_keeps_no_events_in_memory(tmp_path):
    log = Log(path=tmp_path / "audit.log")
    for _ in range(10):
        entry = log.begin(User("me"), Attributes("get", path="/version"), uri="/version")
        assert entry is not None
        entry.complete(200)
    log.close()
    assert log.events() == []
    assert len((tmp_path / "audit.log").read_text().splitlines()) == 10


@simulated(nodes=1)
async def test_a_cluster_in_use_for_hours_keeps_as_many_objects_as_an_idle_one(simulation: Simulation) -> None:
    """What Pods leave behind is gone after an hour: their Events are what a soak would otherwise count."""
    storage = simulation.cluster.server.storage
    await simulation.passes(minutes=1)

    def objects() -> int:
        return sum(len(collection.items) for collection in storage._collections.values())

    before = objects()
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
    path = "/api/v1/namespaces/default/pods"
    for number in range(20):
        await ask(simulation, "POST", path, {**pod, "metadata": {"name": f"p{number}"}})
        await simulation.passes(seconds=5)
        await ask(simulation, "DELETE", f"{path}/p{number}", {"gracePeriodSeconds": 0})
    assert objects() > before + 20
    await simulation.passes(minutes=70)
    await ask(simulation, "GET", path)
    assert objects() == before
