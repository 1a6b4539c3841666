"""Random objects, patches and applies by hypothesis, sent to both servers: whatever it is, the answers are the same.

Bounded: few examples, drawn from the same seed in every run. The examples are small and close to valid, since what is
far from it is refused by the first check.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from .harness import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, Both
from .steps import CONFIG_MAPS, DEPLOYMENTS, config_map, deployment

BOUNDED = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=False,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)

keys = st.sampled_from(["a", "b", "app", "example.com/x", "A_b", "-a", "a/b/c", ""])
words = st.sampled_from(["", "x", "1", "true", "a b", "ü", "x" * 64, "null", "10Mi"])
scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 70000), words, st.sampled_from([1.0, 1.5]))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2), max_leaves=4
)
labels = st.dictionaries(keys, words, max_size=2)
metadata = st.fixed_dictionaries(
    {},
    optional={
        "labels": labels | scalars,
        "annotations": labels,
        "finalizers": st.lists(st.sampled_from(["example.com/a", "b", "kubernetes"]), max_size=2),
        "generateName": words,
        "unknown": scalars,
    },
)
limits = st.dictionaries(st.sampled_from(["cpu", "memory"]), words, max_size=1)
containers = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "A"])},
    optional={
        "image": words,
        "command": st.lists(words, max_size=2),
        "env": st.lists(st.fixed_dictionaries({"name": words}, optional={"value": words}), max_size=2),
        "ports": st.lists(st.fixed_dictionaries({"containerPort": st.integers(-1, 70000)}), max_size=2),
        "resources": st.fixed_dictionaries({}, optional={"limits": limits}),
        "imagePullPolicy": st.sampled_from(["Always", "Never", "Sometimes"]),
        "unknown": scalars,
    },
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(-1, 3) | words,
        "paused": st.booleans() | words,
        "minReadySeconds": st.integers(-1, 5),
        "strategy": st.fixed_dictionaries({}, optional={"type": st.sampled_from(["Recreate", "RollingUpdate", "x"])}),
        "template": st.fixed_dictionaries(
            {"metadata": st.just({"labels": {"a": "b"}})},
            optional={"spec": st.fixed_dictionaries({"containers": st.lists(containers, max_size=2)})},
        ),
    },
)
paths = st.sampled_from(
    ["/data", "/data/a", "/data/b", "/metadata/labels", "/metadata/labels/a", "/spec/replicas", "", "/x", "/a~1b",
     "/metadata/finalizers/-", "/metadata/finalizers/0", "/metadata/name", "data"]
)  # fmt: skip
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "test", "copy", "move", "nope"]), "path": paths},
    optional={"value": values, "from": paths},
)


def examples(drawn: st.SearchStrategy[Any]) -> list[Any]:
    """A few values, the same in every run."""
    found: list[Any] = []

    @seed(20240)
    @BOUNDED
    @given(drawn)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found


async def each(drawn: st.SearchStrategy[Any], ask: Callable[[int, Any], Coroutine[Any, Any, None]]) -> None:
    """Send every example; fail with all differences."""
    differences: list[str] = []
    for index, value in enumerate(examples(drawn)):
        try:
            await ask(index, value)
        except AssertionError as error:
            differences.append(f"{value!r}\n{str(error)[:1200]}")
    assert not differences, f"{len(differences)} differ\n\n" + "\n\n".join(differences)


# Where Go iterates over a map, the order of its errors is random.
TEXTS = ("message", "details.causes")


@pytest.mark.parametrize("validation", ["Strict", "Warn"])
async def test_random_config_maps(both: Both, validation: str):
    async def ask(index: int, drawn: Any) -> None:
        more, data = drawn
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**more, "name": f"c{index}"}, "data": data}
        await both.same("POST", f"{CONFIG_MAPS}?fieldValidation={validation}", body, ignore=TEXTS)

    await each(st.tuples(metadata, st.dictionaries(keys, scalars, max_size=2) | scalars), ask)


async def test_random_deployments_are_created_alike(both: Both):
    async def ask(index: int, drawn: Any) -> None:
        more, spec = drawn
        body = deployment(f"d{index}", spec, **{key: value for key, value in more.items() if key != "generateName"})
        await both.same("POST", DEPLOYMENTS, body, ignore=TEXTS)

    await each(st.tuples(metadata, specs), ask)


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
async def test_random_merges(both: Both, kind: str):
    await both.each("POST", DEPLOYMENTS, deployment())

    async def ask(_index: int, drawn: Any) -> None:
        more, spec = drawn
        await both.same(
            "PATCH", f"{DEPLOYMENTS}/web", {"metadata": more, "spec": spec}, content_type=kind, ignore=TEXTS
        )

    await each(st.tuples(metadata, specs), ask)


async def test_random_json_patches(both: Both):
    await both.each("POST", CONFIG_MAPS, config_map(data={"a": "1"}, labels={"a": "b"}))

    async def ask(_index: int, drawn: Any) -> None:
        await both.same("PATCH", f"{CONFIG_MAPS}/web", drawn, content_type=JSON_PATCH, ignore=TEXTS)

    await each(st.lists(operations, min_size=1, max_size=3), ask)


async def test_random_applies(both: Both):
    async def ask(_index: int, drawn: Any) -> None:
        manager, force, data, more = drawn
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "labels": more}, "data": data}
        path = f"{CONFIG_MAPS}/web?fieldManager={manager}&force={str(force).lower()}"
        await both.same("PATCH", path, json.dumps(body), content_type=APPLY, ignore=TEXTS)

    small = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "2"]), max_size=3)
    await each(st.tuples(st.sampled_from(["one", "two", "three"]), st.booleans(), small, small), ask)


async def test_random_bodies(both: Both):
    texts = st.text('{}[]":,0123456789.eE+-truefalsn\\u \n', max_size=12)

    async def ask(_index: int, drawn: Any) -> None:
        await both.same("POST", CONFIG_MAPS, drawn, content_type=JSON)

    await each(texts, ask)
