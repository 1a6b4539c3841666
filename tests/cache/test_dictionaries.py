"""One dictionary for all stores of a cache: its training, its users, and stores with a dictionary of their own."""

import gc
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.cache import dictionaries as module
from steersman.cache.codecs import Codecs
from steersman.cache.dictionaries import DictionaryPool, shares
from steersman.cache.store import Store
from steersman.cache.wire import parse_event
from steersman.models import dynamic, view_of

WIDGET = dynamic("example.com/v1", "Widget")


def line(kind, name, version=1, size=0, uid=""):
    rng = random.Random(kind)
    words = ["".join(rng.choices("abcdefghij", k=20)) for _ in range(40)]
    rng = random.Random(name)
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"{rng.getrandbits(64):x}",
        "resourceVersion": str(version),
    }
    spec = {word: rng.randrange(10) for word in words} | {"text": "".join(rng.choices("abcdef", k=size))}
    obj = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
    return b'{"type":"ADDED","object":%s}' % json.dumps(obj, separators=(",", ":")).encode()


def fill(store, kind, count, **more):
    """What a list does: collects beside, and commits."""
    store.begin()
    for n in range(count):
        store.stage(*parse_event(line(kind, f"{kind}-{n}", **more)))
    store.train()


def ratio(store):
    return store.size / sum(entry.size for entry in store.entries())


def intact(store, kind, count, **more):
    return all(
        store.get(("ns", f"{kind}-{n}")).raw() == parse_event(line(kind, f"{kind}-{n}", **more))[2]
        for n in range(count)
    )


def test_small_stores_share_one_dictionary():
    """C4: none of them is worth a dictionary, together they are."""
    pool = DictionaryPool()
    kinds = {kind: Store(WIDGET, pool=pool) for kind in ("Red", "Green", "Blue")}
    for kind, store in kinds.items():
        fill(store, kind, 400)
    for store in kinds.values():
        list(store.commit())
    assert len(pool.codecs) == 1
    for kind, store in kinds.items():
        assert ratio(store) < 0.5
        assert intact(store, kind, 400)


def test_stores_alone_share_nothing():
    one, other = Store(WIDGET), Store(WIDGET)
    fill(one, "Red", 1500)
    assert len(one._codecs) == 1
    assert len(other._codecs) == 0


def test_few_objects_teach_when_all_stores_have_theirs():
    """C4: as long as one is still being filled, there may be a better sample to come."""
    pool = DictionaryPool()
    one, other = Store(WIDGET, pool=pool), Store(WIDGET, pool=pool)
    other.begin()
    fill(one, "Red", 200, size=6000)
    list(one.commit())
    assert len(pool.codecs) == 0
    list(other.commit())
    assert len(pool.codecs) == 1
    assert intact(one, "Red", 200, size=6000)


@pytest.mark.slow
def test_what_was_trained_on_few_is_trained_anew_when_there_are_many(monkeypatch):
    monkeypatch.setattr(module, "REVIEW_AFTER_BYTES", 1024 * 1024)
    pool = DictionaryPool()
    one, other = Store(WIDGET, pool=pool), Store(WIDGET, pool=pool)
    fill(one, "Red", 200, size=6000)
    list(one.commit())
    assert len(pool.codecs) == 1
    fill(other, "Blue", 2500)
    list(other.commit())
    assert len(pool.codecs) == 2
    assert intact(one, "Red", 200, size=6000)
    assert intact(other, "Blue", 2500)


@pytest.mark.slow
def test_a_kind_that_comes_later_teaches_once(monkeypatch):
    """C4: the dictionary that does not know it is replaced, and what never compresses well does not replace another."""
    monkeypatch.setattr("steersman.cache.codecs.REVIEW_AFTER_BYTES", 200_000)
    monkeypatch.setattr(module, "REVIEW_AFTER_BYTES", 200_000)
    pool = DictionaryPool()
    first, later, noise = (Store(WIDGET, pool=pool) for _ in range(3))
    fill(first, "Red", 1200)
    list(first.commit())
    for n in range(1000):
        later.apply(*parse_event(line("Blue", f"Blue-{n}")))
        if n % 100 == 99:
            later.compress(100)
            later.train()
    learnt = len(pool.codecs)
    assert 1 < learnt < 4
    for n in range(600):
        noise.apply(*parse_event(line("Noise", f"Noise-{n}", size=12_000)))
        if n % 20 == 19:
            noise.compress(20)
            noise.train()
    assert len(pool.codecs) <= learnt + 1
    assert intact(later, "Blue", 1000)


@pytest.mark.slow
@pytest.mark.parametrize("together", [True, False])
def test_the_order_in_which_kinds_come_costs_little(together):
    """C4: a dictionary that knows only the first of them would make the others half as big again."""
    pool = DictionaryPool()
    kinds = [f"Kind{n}" for n in range(5)]
    stores = [Store(view_of(dynamic("example.com/v1", kind)), pool=pool) for kind in kinds]
    for store in stores:
        store.begin()
    turns = [(kind, n) for kind in range(5) for n in range(2000)]
    for kind, n in sorted(turns, key=lambda turn: turn[::-1]) if together else turns:
        stores[kind].stage(*parse_event(line(kinds[kind], f"{kinds[kind]}-{n}")))
        stores[kind].train()
    for store in stores:
        list(store.commit())
    assert sum(store.size for store in stores) < 0.37 * sum(e.size for store in stores for e in store.entries())
    assert 1 <= len(pool.codecs) <= 5
    assert all(intact(store, kind, 2000) for store, kind in zip(stores, kinds, strict=True))


@pytest.mark.slow
def test_many_stores_of_few_objects_teach_together_and_not_again_and_again(monkeypatch):
    """C4: as informers of a thousand namespaces have them, and of many kinds of which only the first have come."""
    learnt = []
    train = Codecs.train
    monkeypatch.setattr(Codecs, "train", lambda *given, **more: learnt.append(1) or train(*given, **more))
    pool = DictionaryPool()
    spaces = [Store(view_of(dynamic("example.com/v1", "Red")), pool=pool) for _ in range(100)]
    kinds = [Store(view_of(dynamic("example.com/v1", f"Kind{n}")), pool=pool) for n in range(60)]
    for store in spaces + kinds:
        store.begin()
    for n in range(20):
        for at, store in enumerate(spaces):
            store.stage(*parse_event(line("Red", f"Red-{at}-{n}")))
            store.train()
    assert all(store.codec is pool.common for store in spaces)
    for n in range(60):
        for at, store in enumerate(kinds):
            store.stage(*parse_event(line(f"Kind{at}", f"Kind{at}-{n}")))
            store.train()
    assert len(learnt) <= 2
    for store in spaces + kinds:
        list(store.commit())
    assert all(store.codec is pool.common for store in kinds)
    assert len(learnt) <= 4


def test_few_objects_of_a_kind_that_comes_last_use_the_dictionary_of_the_others():
    """C4: they are not worth one, and not to stay plain for that."""
    pool = DictionaryPool()
    first, last, more = (Store(view_of(dynamic("example.com/v1", kind)), pool=pool) for kind in ("Red", "Blue", "Blue"))
    fill(first, "Red", 1500)
    list(first.commit())
    fill(last, "Blue", 300)
    list(last.commit())
    assert len(pool.codecs) == 1
    assert last.codec is pool.common
    assert more.codec is pool.common
    assert ratio(last) < 0.9
    assert intact(last, "Blue", 300)


def test_stores_are_not_counted_for_every_batch():
    """With a thousand of them that would cost more than the batch."""

    class Counted:
        kind, codec, staging, asked = "nothing", None, False, 0

        def amount(self):
            self.asked += 1
            return 0, 0

        def sample(self, most):
            return []

    pool, neighbour = DictionaryPool(), Counted()
    store, membership = Store(WIDGET, pool=pool), pool.join(neighbour)
    store.begin()
    for n in range(400):
        store.stage(*parse_event(line("Red", f"Red-{n}", size=8000)))
        store.train()
    assert membership.member is neighbour
    assert 10 < neighbour.asked < 30


def test_a_store_that_is_dropped_is_forgotten():
    pool = DictionaryPool()
    store = Store(WIDGET, pool=pool)
    fill(store, "Red", 10)
    del store
    gc.collect()
    assert len(pool._memberships) == 0


@pytest.mark.parametrize("different", [True, False])
def test_a_big_store_gets_a_dictionary_of_its_own_where_that_pays(different):
    """C4: a dictionary that is made for a store's kind is not made twice."""
    pool = DictionaryPool()
    first, second = Store(WIDGET, pool=pool), Store(WIDGET, pool=pool)
    first._own_dictionary_from_bytes = second._own_dictionary_from_bytes = 200_000
    fill(first, "Red", 1200)
    list(first.commit())
    kind = "Blue" if different else "Red"
    fill(second, kind, 1000)
    list(second.commit())
    assert (second._own_dictionary is not None) is different
    before = second.size
    second.apply(*parse_event(line(kind, "last")))
    second.compress(len(second.uncompressed))
    assert (second.size - before) < 0.5 * second.get(("ns", "last")).size
    assert intact(second, kind, 1000)


def test_what_is_discarded_is_not_packed_any_more():
    """W2: an interrupted list leaves nothing, and the stored objects are unchanged."""
    store = Store(WIDGET)
    fill(store, "Red", 3, size=20_000)
    list(store.commit())
    store.compress(10)
    before = store.size
    fill(store, "Blue", 3, size=20_000)
    store.discard()
    assert not len(store.uncompressed)
    assert store.compress(10) == 0
    assert store.size == before


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=1500), st.integers(1, 300))
def test_samples_are_shared_out_in_full_and_to_nobody_without_objects(counts, most):
    taken = shares(counts, most)
    assert sum(taken) == (most if any(counts) else 0)
    assert all(share == 0 for count, share in zip(counts, taken, strict=True) if count == 0)


class Model:
    """A store, and what must be in it."""

    def __init__(self, pool):
        self.store = Store(WIDGET, pool=pool)
        self.current: dict[str, int] = {}
        self.staged: dict[str, int] | None = None
        self.uids: dict[str, str] = {}

    def put(self, name, version, size):
        uid = self.uids.setdefault(name, f"uid-{version}")
        event = parse_event(line("Widget", name, version, size=size, uid=uid))
        if self.staged is None:
            self.store.apply(*event)
            self.current[name] = version
        else:
            self.store.stage(*event)
            self.staged[name] = version

    def do(self, step):
        match step:
            case "begin":
                self.store.begin()
                self.staged = {}
            case "commit" if self.staged is not None:
                list(self.store.commit())
                self.current, self.staged = self.staged, None
                self.uids = {
                    name: self.uids[name] for name in self.current
                }  # an object that is created again is another one
            case "discard":
                self.store.discard()
                self.staged = None
            case "compress":
                self.store.compress(5, 20_000)
            case _:
                self.store.train()

    def check(self):
        assert {e.key.name: int(e.resource_version) for e in self.store.entries()} == self.current
        assert self.store.size == sum(len(entry.record) for entry in self.store.entries())


_STEPS = st.sampled_from(["put"] * 6 + ["begin", "commit", "discard", "compress", "train"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), _STEPS, st.integers(0, 30), st.sampled_from([0, 300, 17_000]))))
def test_whatever_happens_every_object_reads_back_and_the_bytes_add_up(steps):
    """C4: with dictionaries that come at any moment, before, during and after a list."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "MIN_OBJECTS_TO_TRAIN": 20,
            "MIN_OBJECTS_OF_KIND": 17,
            "MIN_PLAIN_BYTES": 2000,
            "REVIEW_AFTER_BYTES": 4000,
        }.items():
            patch.setattr(module, name, value)
        patch.setattr("steersman.cache.store.OWN_DICTIONARY_MIN_BYTES", 3000)
        pool = DictionaryPool()
        models = [Model(pool), Model(pool)]
        for version, (which, step, number, size) in enumerate(steps):
            model = models[which]
            if step == "put":
                model.put(f"w{number}", version, size)
            else:
                model.do(step)
            for each in models:
                each.check()
        for model in models:
            for entry in model.store.entries():
                assert json.loads(entry.raw())["metadata"]["resourceVersion"] == entry.resource_version
