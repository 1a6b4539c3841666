"""The store alone: records, compression, indexes, duplicates and reordered deliveries."""

import gc
import json
import random

import msgspec
import pytest

from steersman.cache import UndecodableError
from steersman.cache.codecs import PLAIN, Codecs
from steersman.cache.immutability import is_immutable
from steersman.cache.lines import LineSplitter, MalformedStreamError
from steersman.cache.store import Store
from steersman.cache.wire import parse_event, parse_item, parse_object, parse_page, type_prefix
from steersman.models import EMPTY, FrozenDict, Key, Model, ObjectMeta, PartialObjectMetadata, dynamic, metadata_of

WIDGET = dynamic("widgets.example.com/v1", "Widget")


def widget(name, version, namespace="default", uid="", owners=(), labels=None, **spec):
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    metadata["managedFields"] = [{"manager": "m", "fieldsV1": {"f:spec": {}}}]
    if owners:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Owner", "name": f"n-{o}", "uid": o, "controller": True} for o in owners
        ]
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "widgets.example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


def event(type, obj):
    return json.dumps({"type": type, "object": obj}, separators=(",", ":")).encode()


def apply(store, type, obj):
    return store.apply(*parse_event(event(type, obj)))


def stage(store, obj):
    meta, body, guessed = parse_object(json.dumps(obj, separators=(",", ":")).encode())
    store.stage("ADDED", meta, body, guessed)


def words(changes):
    return [f"{c.type} {c.key.name}" for c in changes]


# The bytes.


@pytest.mark.parametrize("layout", [{"separators": (",", ":")}, {}, {"indent": 2}])
def test_managed_fields_are_cut_out_whatever_the_layout(layout):
    """C4: managedFields are dropped from the bytes, and nothing else is."""
    obj = widget("a", 5, text='tricky "managedFields":[1] text', managedFields=[1, 2])
    if "indent" in layout:
        obj["spec"]['x"managedFields'] = 1
    data = json.dumps({"type": "ADDED", "object": obj}, **layout).encode().replace(b"\n", b"")
    _, meta, body, guessed = parse_event(data)
    del obj["metadata"]["managedFields"]
    assert json.loads(body) == obj
    assert (meta.name, meta.resource_version, guessed) == ("a", "5", False)


def test_managed_fields_first_last_alone_or_absent_leave_valid_json():
    """C4: commas are kept in order."""
    for keys in (["managedFields", "name"], ["name", "managedFields"], ["managedFields"], ["name"], []):
        metadata = {k: [{"a": 1}] if k == "managedFields" else "x" for k in keys}
        data = json.dumps({"metadata": metadata, "spec": {}}, separators=(",", ":")).encode()
        _, body, _ = parse_object(data)
        assert json.loads(body) == {"metadata": {k: "x" for k in keys if k == "name"}, "spec": {}}


def test_an_embedded_template_keeps_its_own_managed_fields():
    """C4: only the object's own metadata is trimmed, even where a part of it looks the same."""
    obj = widget("a", 5, template={"metadata": {"managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]}})
    _, _, body, _ = parse_event(event("ADDED", obj))
    assert json.loads(body)["spec"] == obj["spec"]
    assert "managedFields" not in json.loads(body)["metadata"]


def test_an_event_with_its_members_in_another_order_is_understood():
    data = json.dumps({"object": widget("a", 5), "extra": {"x": 1}, "type": "ADDED"}).encode()
    kind, meta, body, _ = parse_event(data)
    assert (kind, meta.name, json.loads(body)["kind"]) == ("ADDED", "a", "Widget")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"type":"ADDED"}', b'{"type":"ADDED","object":{"metadata":7}}'])
def test_what_is_no_event_is_malformed(data):
    with pytest.raises(MalformedStreamError):
        parse_event(data)
    with pytest.raises(MalformedStreamError):
        parse_page(b'{"items":' + data)


def test_items_of_built_in_lists_get_their_kind_back():
    """C4: typed lists leave apiVersion and kind out of their items."""
    pod = type_prefix("v1", "Pod")
    assert json.loads(parse_item(b'{"metadata":{"name":"a"}}', pod)[1]) == {
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"},
    }  # fmt: skip
    assert json.loads(parse_item(b"{}", pod)[1]) == {"kind": "Pod", "apiVersion": "v1"}
    has = b'{"kind":"X","metadata":{}}'
    assert parse_item(has, pod)[1] is has


def test_lines_are_joined_across_chunks_and_split_on_newlines_only():
    """W8: any cut into chunks gives the same lines; blank ones say nothing."""
    lines = ["a\u0085b\n", "c\u2028d\r\n", "\n", "e" * 1000 + "\n"]
    data = "".join(lines).encode()
    for size in (1, 2, 3, 10, 10_000):
        splitter, got = LineSplitter(), []
        for at in range(0, len(data), size):
            got += splitter.feed(data[at : at + size])
        assert [g.decode() for g in got] == [line for line in lines if line != "\n"]
    with pytest.raises(MalformedStreamError):
        LineSplitter(limit=10).feed(b"x" * 11)


# Changes.


def test_duplicates_and_older_versions_change_nothing():
    """W3: a delivery that comes twice or late is not told twice, and takes nothing back."""
    store = Store(WIDGET)
    assert words(apply(store, "ADDED", widget("a", 5, size=5))) == ["add a"]
    assert apply(store, "ADDED", widget("a", 5, size=5)) == ()
    assert apply(store, "MODIFIED", widget("a", 4, size=4)) == ()
    assert words(apply(store, "MODIFIED", widget("a", 10, size=10))) == ["update a"]
    assert apply(store, "MODIFIED", widget("a", 9, size=9)) == (), "10 is newer than 9, though not as text"
    assert store.get(Key("default", "a")).object(WIDGET)["spec"] == {"size": 10}


def test_a_late_event_does_not_bring_a_deleted_object_back():
    """W1: an object that was seen to go stays gone, unless a list has it."""
    store = Store(WIDGET)
    apply(store, "ADDED", widget("a", 5))
    assert words(apply(store, "DELETED", widget("a", 7))) == ["delete a"]
    assert apply(store, "MODIFIED", widget("a", 6)) == ()
    assert words(apply(store, "ADDED", widget("a", 8, uid="new"))) == ["add a"]
    assert apply(store, "DELETED", widget("a", 7)) == ()
    assert len(store) == 1


def test_a_delete_tells_the_final_state():
    """W5: what the DELETED event carried."""
    store = Store(WIDGET)
    apply(store, "ADDED", widget("a", 5, size=1))
    (change,) = apply(store, "DELETED", widget("a", 7, size=2))
    assert (change.old.resource_version, change.old.object(WIDGET)["spec"]) == ("7", {"size": 2})
    assert change.entry is change.old


def test_the_relist_tells_exactly_the_difference():
    """W5: no event for unchanged objects; delete before add for another uid."""
    store = Store(WIDGET)
    for each in ("same", "changed", "gone", "again"):
        apply(store, "ADDED", widget(each, 5))
    store.begin()
    for obj in (widget("same", 5), widget("changed", 6), widget("again", 7, uid="other"), widget("new", 8)):
        stage(store, obj)
    assert len(store) == 4, "nothing is visible before the commit"
    assert words(store.commit()) == ["delete gone", "delete again", "update changed", "add again", "add new"]


def test_entries_do_not_change_under_a_reader():
    """C1: an entry is one version for ever, and a list is of one moment."""
    store = Store(WIDGET)
    for n in range(5):
        apply(store, "ADDED", widget(f"w{n}", n + 1, size=n))
    entries = store.entries()
    first = next(entries)
    for n in range(5):
        apply(store, "DELETED", widget(f"w{n}", n + 100))
    assert [e.object(WIDGET)["spec"]["size"] for e in (first, *entries)] == [0, 1, 2, 3, 4]


# Reading.


class Spec(Model):
    size: int = 0
    tags: tuple[str, ...] = ()


class Typed(Model):
    """As a `Resource` is, without being one."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()


class Loose(Model):
    anything: object = None


def test_a_handler_reads_the_previous_version_without_decoding_it_again():
    store = Store(metadata_of(WIDGET))
    apply(store, "ADDED", widget("a", 1, labels={"tier": "one"}))
    first = store.get(Key("default", "a")).object(store.view)
    (change,) = apply(store, "MODIFIED", widget("a", 2, labels={"tier": "two"}))
    assert change.old.object(store.view) is first
    assert change.old.metadata().labels == {"tier": "one"}
    assert change.new.object(store.view).metadata.labels == {"tier": "two"}


def test_typed_views_are_shared_and_dynamic_ones_are_not():
    """C1: shared objects are immutable; mutable objects are not shared."""
    from steersman.models import View

    store = Store(WIDGET)
    apply(store, "ADDED", widget("a", 5, size=1, labels={"x": "y"}))
    key = Key("default", "a")
    typed = View(WIDGET.info, Typed, "typed")
    one, two = store.get(key).object(typed), store.get(key).object(typed)
    assert one is two
    with pytest.raises(AttributeError):
        one.spec = None
    with pytest.raises(TypeError):
        one.metadata.labels["x"] = "z"
    loose = store.get(key).object(WIDGET)
    loose["spec"]["size"] = 99
    assert store.get(key).object(WIDGET)["spec"]["size"] == 1
    apply(store, "MODIFIED", widget("a", 6, size=2))
    assert store.get(key).object(typed).spec.size == 2
    assert one.spec.size == 1


def test_only_types_that_are_immutable_all_the_way_down_are_shared():
    """C1: a field of free-form JSON makes each reader get its own."""
    assert is_immutable(PartialObjectMetadata)
    assert is_immutable(Typed)
    assert not is_immutable(Loose)
    assert not is_immutable(dict)
    assert not is_immutable(msgspec.defstruct("Mutable", [("a", int)]))
    assert isinstance(EMPTY, FrozenDict)


def test_hot_objects_are_bounded():
    """C1: at most 512 decoded objects are kept."""
    store = Store(WIDGET)
    meta = metadata_of(WIDGET)
    for n in range(600):
        apply(store, "ADDED", widget(f"w{n}", n + 1))
    for entry in store.entries():
        entry.object(meta)
    assert len(store._decoded) == 512


def test_reading_by_namespace_and_owner_needs_no_declaration():
    """C5: by namespace and by owner uid, through every kind of change."""
    store = Store(WIDGET)
    apply(store, "ADDED", widget("a", 1, namespace="x", owners=("o1",)))
    apply(store, "ADDED", widget("b", 2, namespace="y", owners=("o1", "o2")))
    apply(store, "ADDED", widget("c", 3, namespace="y"))

    def owned(uid):
        return sorted(e.key.name for e in store.by_owner(uid))

    assert owned("o1") == ["a", "b"]
    assert owned("o2") == ["b"]
    assert sorted(e.key.name for e in store.entries("y")) == ["b", "c"]
    apply(store, "MODIFIED", widget("b", 4, namespace="y", owners=("o3",)))
    assert (owned("o1"), owned("o2"), owned("o3")) == (["a"], [], ["b"])
    apply(store, "MODIFIED", widget("c", 5, namespace="y", owners=("o3",)))
    apply(store, "DELETED", widget("b", 6, namespace="y", owners=("o3",)))
    assert owned("o3") == ["c"]
    (entry,) = store.by_owner("o3")
    assert entry.controller.name == "n-o3"
    store.begin()
    stage(store, widget("d", 9, namespace="y", owners=("o1",)))
    list(store.commit())
    assert (owned("o1"), owned("o3")) == (["d"], [])


def test_declared_indexes_follow_their_function():
    """C5: declared up front or later; several values; a function that fails harms only its object."""
    failures = []
    store = Store(WIDGET, on_index_error=lambda index, key, _problem: failures.append((index, key.name)))

    def colours(obj):
        return obj["spec"]["colours"]

    store.declare("colour", colours)
    apply(store, "ADDED", widget("a", 1, colours=["red", "blue"]))
    apply(store, "ADDED", widget("b", 2, colours="red"))
    apply(store, "ADDED", widget("odd", 3))

    def found(value):
        return sorted(e.key.name for e in store.by_index("colour", value))

    assert (found("red"), found("blue"), failures) == (["a", "b"], ["a"], [("colour", "odd")])
    apply(store, "MODIFIED", widget("a", 4, colours=["green"]))
    assert (found("red"), found("blue"), found("green")) == (["b"], [], ["a"])
    apply(store, "DELETED", widget("b", 5))
    assert found("red") == []
    store.declare("size", lambda obj: str(obj["spec"].get("size", 0)))
    assert len(store.by_index("size", "0")) == 2
    with pytest.raises(KeyError, match="no index 'shape' \\(declared: colour, size\\)"):
        store.by_index("shape", "round")
    with pytest.raises(ValueError, match="another index"):
        store.declare("colour", lambda _obj: None)
    store.declare("colour", colours)


# Compression and memory.


def many(count, text=lambda _n: ""):
    rng = random.Random(7)
    return [
        widget(
            f"widget-{n:06d}",
            n + 1,
            namespace=f"ns-{n % 7}",
            uid=f"{rng.getrandbits(64):016x}-{n}",
            image=f"registry.example.com/team-{n % 9}/app:{n % 5}",
            env=[{"name": f"VARIABLE_{i}", "value": f"value-{rng.randrange(50)}"} for i in range(8)],
            text=text(n),
        )
        for n in range(count)
    ]


def test_a_dictionary_is_trained_on_the_first_thousand_and_what_came_before_is_packed_again():
    """C4: objects read back byte for byte, whichever codec wrote them."""
    store, objects = Store(WIDGET), many(3000)
    plain = 0
    for n, obj in enumerate(objects):
        apply(store, "ADDED", obj)
        if n % 500 == 499:
            store.train()
    for obj in objects:
        del obj["metadata"]["managedFields"]
        key = Key(obj["metadata"]["namespace"], obj["metadata"]["name"])
        entry = store.get(key)
        plain += entry.size
        assert json.loads(entry.raw()) == obj
    store.compress(len(store.uncompressed))
    assert store.size < plain * 0.5
    assert store.size == sum(len(e.record) for e in store.entries())


def test_a_thousand_small_objects_stay_plain():
    """C4: what a dictionary takes is more than it could save."""
    store = Store(WIDGET)
    for n in range(1100):
        apply(store, "ADDED", widget(f"w-{n}", 1))
    store.train()
    assert store.size > sum(e.size for e in store.entries())


def test_large_objects_teach_nothing_and_are_packed_by_themselves():
    """C4: an object larger than half a dictionary needs none, and is tried once."""
    store = Store(WIDGET)
    rng = random.Random(1)
    for n in range(120):
        apply(store, "ADDED", widget(f"w-{n}", 1, size="".join(f"{rng.randrange(99)}," for _ in range(9000))))
    assert len(store.uncompressed) == 120
    while store.compress(50, 64 * 1024):
        pass
    assert store.size < 0.6 * sum(e.size for e in store.entries())
    assert Codecs().train([e.raw() for e in store.entries()]) is None


def test_small_collections_stay_plain_and_big_objects_do_not():
    """C4: a dictionary costs more than it saves for a handful of objects."""
    codecs = Codecs()
    assert codecs.plain.encode(b"x" * 100)[0] == PLAIN
    codec, packed = codecs.plain.encode(b"x" * 100_000)
    assert codec != PLAIN
    assert len(packed) < 1000
    assert codecs.decode(codec, packed) == b"x" * 100_000
    assert not codecs.plain.trained


def test_a_collection_of_alike_objects_trains_too():
    """C4: where the trainer has nothing to learn, the objects themselves are the dictionary."""
    codecs = Codecs()
    codec = codecs.train([b"short"] * 70)
    assert codec is not None
    number, packed = codec.encode(b"short")
    assert codecs.decode(number, packed) == b"short"


def test_objects_that_outgrow_the_dictionary_get_a_new_one():
    """C4: when compression has become much worse than promised, it is trained anew, a bounded number of times."""
    store = Store(WIDGET)
    for obj in many(1200):
        apply(store, "ADDED", obj)
    store.train()
    before = store._pool.common.number
    rng = random.Random(3)
    vocabulary = ["".join(rng.choices("abcdefghij", k=12)) for _ in range(400)]
    for obj in many(1500, text=lambda _n: " ".join(rng.choices(vocabulary, k=250))):
        obj["metadata"]["resourceVersion"] = str(10_000 + int(obj["metadata"]["resourceVersion"]))
        apply(store, "MODIFIED", obj)
    store.compress(len(store.uncompressed))
    store.train()
    assert store._pool.common.number > before
    for _ in range(80):
        store._codecs.train([b"sample %d" % n for n in range(20)])
    assert len(store._codecs) == 64
    assert len(list(store.entries())) == 1500
    assert all(json.loads(e.raw())["kind"] == "Widget" for e in store.entries())


def test_a_transform_drops_more():
    """C4: what a transform drops is not kept; keys, versions and owners are."""

    def without_spec(body):
        obj = json.loads(body)
        del obj["spec"]
        return json.dumps(obj).encode()

    store = Store(WIDGET, transform=without_spec)
    apply(store, "ADDED", widget("a", 1, size=1, owners=("o",)))
    entry = store.get(Key("default", "a"))
    assert set(json.loads(entry.raw())) == {"apiVersion", "kind", "metadata"}
    assert entry.owner_uids == ("o",)


def test_the_garbage_collector_does_not_see_cached_objects():
    """C1: thousands of entries add next to nothing to what a collection has to visit."""
    store, objects = Store(WIDGET), many(2000)
    lines = [event("ADDED", obj) for obj in objects]
    gc.collect()
    before = len(gc.get_objects())
    for line in lines:
        store.apply(*parse_event(line))
    store.train()
    gc.collect()
    assert len(gc.get_objects()) - before < 100


def test_the_handlers_of_a_change_share_the_decoded_objects():
    """C1: both versions of a change are decoded once, however many handlers read them in turn."""
    from steersman.models import View

    store = Store(WIDGET)
    typed = View(WIDGET.info, Typed, "typed")
    apply(store, "ADDED", widget("a", 1, size=1))
    (change,) = apply(store, "MODIFIED", widget("a", 2, size=2))
    old, new = change.old.object(typed), change.new.object(typed)
    assert (old.spec.size, new.spec.size) == (1, 2)
    assert all(change.new.object(typed) is new and change.old.object(typed) is old for _ in range(3))
    assert store.get(Key("default", "a")).object(typed) is new, "the old version does not displace the current one"


def test_an_undecodable_version_is_reported_once():
    """W9: and again when it changes."""
    from steersman.models import View

    reports = []
    store = Store(WIDGET, on_undecodable=reports.append)
    typed = View(WIDGET.info, Typed, "typed")
    apply(store, "ADDED", widget("a", 1, size="big"))
    for _ in range(3):
        with pytest.raises(UndecodableError, match=r"\$\.spec\.size"):
            store.get(Key("default", "a")).object(typed)
    apply(store, "MODIFIED", widget("a", 2, size="bigger"))
    with pytest.raises(UndecodableError):
        store.get(Key("default", "a")).object(typed)
    assert [r.resource_version for r in reports] == ["1", "2"]


def test_what_changes_stays_plain_until_it_is_settled_and_reads_the_same():
    """C4: a new record is not compressed yet; the next list compresses the records that it keeps."""
    store, objects = Store(WIDGET), many(2000)
    for obj in objects:
        apply(store, "ADDED", obj)
    store.train()
    packed = store.size
    changed = objects[7]
    changed["metadata"]["resourceVersion"] = "99999"
    apply(store, "MODIFIED", changed)
    key = Key(changed["metadata"]["namespace"], changed["metadata"]["name"])
    assert len(store.uncompressed) == 1
    plain = store.get(key)
    store.begin()
    store.discard()
    assert not len(store.uncompressed)
    assert store.size < packed + 500
    assert store.get(key) == plain
    assert store.get(key).raw() == plain.raw()
