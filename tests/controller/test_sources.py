"""From a change to keys: mappers, priorities, and errors of user code."""

import asyncio
import itertools
from dataclasses import replace
from random import Random

import pytest

from steersman.controller import (
    LOW_PRIORITY,
    Controller,
    Source,
    to_annotation,
    to_controller,
    to_label,
    to_owner,
    to_self,
)
from steersman.k8s import ConfigMap, Deployment, Node, ReplicaSet
from steersman.models import Key, ObjectMeta, OwnerReference, view_of
from steersman.predicates import generation_changed, where
from steersman.telemetry.registry import REGISTRY
from steersman.testing import virtual_time

from .fakes import FakeEntry, FakeInformer, added, deleted, updated

A = Key("prod", "a")
VIEW = view_of(ConfigMap)


def controller_with(*sources: Source) -> Controller:
    async def reconcile(request): ...

    return Controller("hello", reconcile, sources=sources, rng=Random(1))


def owned_by(kind: str, name: str, *, api_version: str = "apps/v1", controller: bool = True) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid="o1", controller=controller)


def entry(**meta) -> FakeEntry:
    return FakeEntry(Key("prod", "child"), meta=ObjectMeta(**meta))


async def queued(c: Controller) -> list[Key]:
    keys = []
    while len(c.queue):
        keys.append((await c.queue.get()).key)
        c.queue.done(keys[-1])
    return keys


@virtual_time
async def test_mappers_find_the_objects_that_a_change_concerns():
    child = entry(
        owner_references=(owned_by("Deployment", "web"), owned_by("ReplicaSet", "rs", controller=False)),
        labels={"app": "hello"},
        annotations={"belongs-to": "other/thing"},
    )
    assert list(to_self(child)) == [Key("prod", "child")]
    assert list(to_controller(Deployment)(child)) == [Key("prod", "web")]
    assert list(to_controller(ReplicaSet)(child)) == []
    assert list(to_owner(ReplicaSet)(child)) == [Key("prod", "rs")]
    assert list(to_label("app")(child)) == [Key("prod", "hello")]
    assert list(to_label("app", namespace="")(child)) == [Key("", "hello")]
    assert list(to_label("missing")(child)) == []
    assert list(to_annotation("belongs-to")(child)) == [Key("other", "thing")]


def test_an_owner_is_found_by_group_and_kind_whatever_the_version():
    """A4: an owner's API group counts, its version does not."""
    old = entry(owner_references=(owned_by("Deployment", "web", api_version="apps/v1beta1"),))
    foreign = entry(owner_references=(owned_by("Deployment", "web", api_version="example.com/v1"),))
    assert list(to_controller(Deployment)(old)) == [Key("prod", "web")]
    assert list(to_controller(Deployment)(foreign)) == []


def test_a_cluster_scoped_owner_has_no_namespace():
    """A4: owners are in the same namespace or cluster-scoped."""
    child = entry(owner_references=(owned_by("Node", "n1", api_version="v1"),))
    assert list(to_controller(Node)(child)) == [Key("", "n1")]


@virtual_time
async def test_both_states_of_an_update_are_mapped():
    informer = FakeInformer()
    c = controller_with(Source(informer, name="Pod", to=to_label("app")))
    informer.emit(updated(entry(labels={"app": "old"}), entry(labels={"app": "new"})))
    assert await queued(c) == [Key("prod", "new"), Key("prod", "old")]
    informer.emit(deleted(entry(labels={"app": "new"})))
    assert await queued(c) == [Key("prod", "new")]


@virtual_time
async def test_functions_of_the_typed_object_map_too():
    informer = FakeInformer()
    answers = {"none": None, "one": A, "many": [A, Key("prod", "b")]}
    c = controller_with(Source(informer, name="ConfigMap", to=lambda obj: answers[obj], view=VIEW))
    for word in answers:
        informer.emit(added(replace(entry(), value=word)))
    assert await queued(c) == [A, Key("prod", "b")]


@virtual_time
async def test_the_initial_list_and_replays_have_low_priority():
    """Q3: fresh events outrank the initial list and resyncs."""
    informer = FakeInformer()
    c = controller_with(Source(informer, name="HelloApp"))
    informer.emit(added(FakeEntry(A), initial=True))
    informer.emit(updated(FakeEntry(Key("prod", "b")), FakeEntry(Key("prod", "b"))))
    informer.emit(added(FakeEntry(Key("prod", "c"))))
    assert c.queue.state.depths() == {0: 1, LOW_PRIORITY: 2}
    job = await c.queue.get()
    assert job.reasons == ("HelloApp add",)
    assert job.key.name == "c"


@virtual_time
async def test_a_predicate_keeps_changes_out():
    informer = FakeInformer()
    c = controller_with(Source(informer, name="HelloApp", where=generation_changed))
    informer.emit(updated(FakeEntry(A), FakeEntry(A, resource_version="2")))
    assert len(c.queue) == 0
    informer.emit(updated(FakeEntry(A), FakeEntry(A, resource_version="3", generation=2)))
    assert await queued(c) == [A]


@virtual_time
async def test_a_predicate_that_raises_lets_the_change_pass():
    """R1: an exception in a predicate is caught and counted, and the event is not lost."""
    informer = FakeInformer()

    def broken(obj):
        raise AttributeError("spec")

    c = controller_with(Source(informer, name="ConfigMap", where=where(broken), view=VIEW))
    for n in range(50):
        informer.emit(added(FakeEntry(Key("prod", str(n)))))
    assert len(await queued(c)) == 50
    assert c.stats.handler_errors == {"predicate": 50}


@virtual_time
async def test_a_mapper_that_raises_is_retried_until_it_maps():
    """R1: an exception in a mapper is caught, counted and retried; nothing is lost and no other key waits."""
    informer, broken = FakeInformer(), True

    def mapper(obj):
        if broken and obj == "bad":
            raise ZeroDivisionError
        return Key("prod", obj)

    c = controller_with(Source(informer, name="ConfigMap", to=mapper, view=VIEW))
    informer.emit(added(FakeEntry(A, value="bad")))
    informer.emit(added(FakeEntry(Key("prod", "x"), value="good")))
    assert await queued(c) == [Key("prod", "good")]
    await asyncio.sleep(300)
    assert len(c.queue) == 0
    assert 5 < c.stats.handler_errors["mapper"] < 30
    broken = False
    await asyncio.sleep(61)
    assert await queued(c) == [Key("prod", "bad")]
    await asyncio.sleep(3600)
    assert len(c.queue) == 0


@virtual_time
async def test_every_state_that_could_not_be_mapped_is_kept():
    """R1: the old owner of an object is reconciled, too, even if the object changed several times."""
    informer, broken = FakeInformer(), True

    def mapper(obj):
        if broken:
            raise ZeroDivisionError
        return Key("prod", obj)

    c = controller_with(Source(informer, name="ConfigMap", to=mapper, view=VIEW))
    states = [FakeEntry(A, resource_version=str(n), value=f"owner-{n}") for n in range(4)]
    for old, new in itertools.pairwise(states):
        informer.emit(updated(old, new))
    broken = False
    await asyncio.sleep(61)
    assert sorted(k.name for k in await queued(c)) == [f"owner-{n}" for n in range(4)]


@virtual_time
async def test_failing_handlers_are_counted_where_dashboards_can_see_it():
    """R1: exceptions in mappers and predicates are counted."""
    informer = FakeInformer()

    def mapper(obj):
        raise ZeroDivisionError

    c = controller_with(Source(informer, name="ConfigMap", to=mapper, view=VIEW))
    task = asyncio.create_task(c.run())
    await asyncio.sleep(0)
    informer.emit(added(FakeEntry(A, value="x")))
    labels = {"controller": "hello", "handler": "mapper"}
    assert REGISTRY.get_sample_value("steersman_handler_errors_total", labels) == 1
    await c.stop()
    await task


@virtual_time
async def test_a_source_that_is_taken_away_feeds_no_more():
    """R1: nor are mappings that failed before retried for it."""
    informer, failing = FakeInformer(), FakeInformer()

    def mapper(obj):
        raise ZeroDivisionError

    kept, gone = Source(informer, name="HelloApp"), Source(failing, name="ConfigMap", to=mapper, view=VIEW)
    c = controller_with(kept, gone)
    failing.emit(added(FakeEntry(A, value="x")))
    c.unwatch(gone)
    await asyncio.sleep(3600)
    assert c.stats.handler_errors == {"mapper": 1}
    assert failing.handlers == []
    informer.emit(added(FakeEntry(A)))
    assert len(c.queue) == 1


def test_a_function_needs_a_view_to_see_an_object():
    with pytest.raises(TypeError, match="needs a view"):
        controller_with(Source(FakeInformer(), name="ConfigMap", to=lambda obj: A))
    with pytest.raises(TypeError, match="not a mapper"):
        controller_with(Source(FakeInformer(), name="ConfigMap", to="self", view=VIEW))  # type: ignore[arg-type]
