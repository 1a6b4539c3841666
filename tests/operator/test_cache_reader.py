"""The reads of a controller, and lists by labels without a scan."""

import json
from contextlib import asynccontextmanager

import pytest

from steersman import LabelSelector, LabelSelectorRequirement, NotCachedError, ObjectMeta, metadata_of, parse_labels
from steersman.cache import Cache, Entry
from steersman.k8s import ConfigMap, Pod
from steersman.models import Key, encode, view_of
from steersman.operator.cache_reader import CacheReader, LabelIndexes, selector_of
from steersman.testing import virtual_time


def config_map(name, version, **labels):
    return ConfigMap(
        metadata=ObjectMeta(name=name, namespace="n", uid=f"uid-{name}", resource_version=str(version), labels=labels)
    )


class Source:
    """Lists some objects, and then sends no events."""

    def __init__(self, objects):
        self.objects = objects

    async def list_page(self, *, limit, continue_, resource_version, match):
        items = [json.loads(encode(o)) for o in self.objects]
        return encode({"kind": "ConfigMapList", "metadata": {"resourceVersion": "100"}, "items": items})

    @asynccontextmanager
    async def watch(self, *, resource_version, send_initial_events, timeout):
        async def chunks():
            import asyncio

            if send_initial_events:
                for o in self.objects:
                    yield encode({"type": "ADDED", "object": json.loads(encode(o))}) + b"\n"
                end = {"resourceVersion": "100", "annotations": {"k8s.io/initial-events-end": "true"}}
                bookmark = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": end}
                yield encode({"type": "BOOKMARK", "object": bookmark}) + b"\n"
            await asyncio.sleep(3600)

        yield chunks()


@asynccontextmanager
async def reading(*objects):
    cache = Cache(None, sources=lambda info, scope: Source(objects))
    informer = cache.informer(ConfigMap)
    await cache.start()
    await cache.wait_synced(10)
    try:
        yield CacheReader(cache, LabelIndexes(cache), [view_of(ConfigMap)], "controller thing"), informer
    finally:
        await cache.close()


def names(found):
    return sorted(o.metadata.name for o in found)


@virtual_time
async def test_kinds_that_are_not_declared_are_refused_with_the_way_out():
    """C6: nothing is watched, or silently read as empty, because it is not declared."""
    async with reading() as (reader, _):
        for read in (
            lambda: reader.get(view_of(Pod), Key("n", "p")),
            lambda: reader.list(view_of(Pod), "n", None, None),
        ):
            with pytest.raises(
                NotCachedError, match=r"controller thing does not declare that it reads Pod: add it to reads="
            ):
                read()
        with pytest.raises(NotCachedError, match=r"does not declare that it owns Pod: add it to owns=\[Pod\], or"):
            reader.list(view_of(Pod), "n", None, "uid-of-the-owner")


@virtual_time
@pytest.mark.parametrize(
    "labels",
    [
        {"app": "web"},
        "app=web",
        "app in (web)",
        parse_labels("app=web"),
        LabelSelector(match_labels={"app": "web"}),
        LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="In", values=("web",)),)),
    ],
)
async def test_labels_may_be_given_in_every_form(labels):
    async with reading(config_map("a", 1, app="web"), config_map("b", 2, app="db"), config_map("c", 3)) as (reader, _):
        assert names(reader.list(view_of(ConfigMap), "n", labels, None)) == ["a"]


@virtual_time
async def test_set_based_selectors_and_none_scan_as_before():
    async with reading(config_map("a", 1, app="web"), config_map("b", 2, app="db"), config_map("c", 3)) as (reader, _):
        view = view_of(ConfigMap)
        assert names(reader.list(view, "n", "app in (web,db)", None)) == ["a", "b"]
        assert names(reader.list(view, "n", "!app", None)) == ["c"]
        assert names(reader.list(view, "", None, None)) == ["a", "b", "c"]
        assert names(reader.list(view, "other", {"app": "web"}, None)) == []


@virtual_time
async def test_a_list_by_an_exact_label_decodes_only_what_it_finds(monkeypatch):
    others = [config_map(f"other-{n}", n + 10, app="db", part="x") for n in range(50)]
    async with reading(config_map("a", 1, app="web", part="x"), *others) as (reader, _):
        view = view_of(ConfigMap)
        reader.list(view, "n", {"app": "web", "part": "x"}, None)
        decoded = []
        read = Entry.object
        monkeypatch.setattr(Entry, "object", lambda entry, kind: decoded.append(entry.key) or read(entry, kind))
        assert names(reader.list(view, "n", {"app": "web", "part": "x"}, None)) == ["a"]
        assert names(reader.list(metadata_of(ConfigMap), "n", {"app": "web"}, None)) == ["a"]
        assert {key.name for key in decoded} == {"a"}


@virtual_time
async def test_the_telling_label_is_indexed_rather_than_the_common_one():
    async with reading() as (reader, informer):
        labels = {"app.kubernetes.io/managed-by": "me", "instance": "a"}
        reader.list(view_of(ConfigMap), "n", labels, None)
        assert informer.indexed("label instance", "a") == []
        with pytest.raises(KeyError):
            informer.indexed("label app.kubernetes.io/managed-by", "me")


@virtual_time
async def test_namespaces_in_which_the_operator_does_not_work_are_refused_by_name():
    cache = Cache(None, sources=lambda info, scope: Source([]))
    cache.informer(ConfigMap, namespace="n")
    reader = CacheReader(cache, LabelIndexes(cache), [view_of(ConfigMap)], "controller thing")
    for read in (
        lambda: reader.get(view_of(ConfigMap), Key("elsewhere", "c")),
        lambda: reader.list(view_of(ConfigMap), "elsewhere", {"a": "b"}, None),
    ):
        with pytest.raises(NotCachedError, match="controller thing does not work in namespace 'elsewhere'"):
            read()
    assert reader.list(view_of(ConfigMap), "", None, None) == ()


@virtual_time
async def test_an_operator_whose_selector_matches_no_namespace_reads_nothing():
    cache = Cache(None, sources=lambda info, scope: Source([]))
    reader = CacheReader(cache, LabelIndexes(cache), [view_of(ConfigMap)], "controller thing")
    assert reader.list(view_of(ConfigMap), "", {"a": "b"}, None) == ()


def test_no_labels_select_everything():
    assert selector_of(None) is None
    assert selector_of({}) is None
    assert selector_of("") is None


@virtual_time
async def test_who_declares_only_metadata_may_read_no_more():
    """W11: whatever others of the operator have declared; the refusal says what to do."""
    async with reading(config_map("a", 1)) as (reader, informer):
        reader = CacheReader(reader._cache, LabelIndexes(reader._cache), [metadata_of(ConfigMap)], "controller thing")
        assert names(reader.list(metadata_of(ConfigMap), "n", None, None)) == ["a"]
        with pytest.raises(NotCachedError, match=r"reads only the metadata of ConfigMap: add ConfigMap to reads="):
            reader.get(view_of(ConfigMap), Key("n", "a"))
        assert informer.whole
