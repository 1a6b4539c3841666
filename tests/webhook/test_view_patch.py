"""H4 over random objects: a patch makes the handler's change, and nothing else, whatever the object has beside it."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from steersman import Model, Resource, replace
from steersman.models import JsonPatch, from_dict, to_dict
from steersman.webhook.view_patch import patch_of


class Part(Model):
    name: str
    size: int = 1
    note: str | None = None


class MachineSpec(Model):
    speed: int = 10
    colour: str | None = None
    parts: tuple[Part, ...] = ()
    tags: tuple[str, ...] = ()


class Machine(Resource, group="patching.example.com", version="v1"):
    spec: MachineSpec = MachineSpec()


names = st.sampled_from(["a", "b", "c", "d", "e"])
unknown = st.dictionaries(
    st.sampled_from(["future", "~odd/name", "x"]), st.integers() | st.text(max_size=3), max_size=2
)


@st.composite
def machines(draw: Any) -> dict[str, Any]:
    """A stored machine: some fields, some that no class knows, parts under distinct names."""
    parts = [
        {"name": name, **draw(unknown), **draw(st.fixed_dictionaries({}, optional={"size": st.integers(0, 9)}))}
        for name in draw(st.lists(names, unique=True, max_size=4))
    ]
    spec = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "speed": st.integers(0, 20),
                "colour": st.sampled_from(["red", "blue"]),
                "tags": st.lists(st.sampled_from("xyz"), max_size=3),
            },
        )
    )
    body = {"apiVersion": "patching.example.com/v1", "kind": "Machine", "metadata": {"name": "m", **draw(unknown)}}
    return {**body, "spec": {**spec, "parts": parts, **draw(unknown)}, **draw(unknown)}


@st.composite
def changed(draw: Any, machine: Machine) -> Machine:
    """A change that a handler may make."""
    parts = [
        replace(p, size=draw(st.integers(0, 9))) if draw(st.booleans()) else p
        for p in draw(st.permutations(machine.spec.parts))
        if draw(st.integers(0, 4))
    ]
    taken = {p.name for p in parts}
    parts += [Part(name=n) for n in draw(st.lists(names, unique=True, max_size=2)) if n not in taken]
    words: dict[str, Any] = {"parts": tuple(parts)}
    if draw(st.booleans()):
        words["speed"] = draw(st.integers(0, 20))
    if draw(st.booleans()):
        words["colour"] = draw(st.sampled_from(["red", "green"]) | st.none())
    if draw(st.booleans()):
        words["tags"] = tuple(draw(st.lists(st.sampled_from("xyz"), max_size=3)))
    return replace(machine, spec=replace(machine.spec, **words))


def extra(known: set[str], obj: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name not in known}


@settings(deadline=None)
@given(st.data())
def test_the_patched_object_reads_as_what_the_handler_returned_and_has_all_else_of_the_stored_one(data):
    """H4: over random objects and random changes."""
    raw = data.draw(machines())
    machine = from_dict(Machine, raw)
    after = data.draw(changed(machine))
    result = patch_of(raw, to_dict(machine), to_dict(after)).apply(raw)
    assert from_dict(Machine, result) == after
    spec, stored = result["spec"], raw["spec"]
    assert extra({"spec"}, result) == extra({"spec"}, raw)
    fields = {"speed", "colour", "parts", "tags"}
    assert extra(fields, spec) == extra(fields, stored)
    before = {part["name"]: part for part in stored["parts"]}
    for part in spec.get("parts", ()):
        if part["name"] in before:
            assert extra({"size", "note"}, part) == extra({"size", "note"}, before[part["name"]])


@settings(deadline=None)
@given(st.data())
def test_what_is_not_changed_is_not_patched(data):
    """H4: not one operation, whatever the view writes that the object lacks."""
    raw = data.draw(machines())
    machine = from_dict(Machine, raw)
    assert not patch_of(raw, to_dict(machine), to_dict(machine))


@settings(deadline=None)
@given(st.data())
def test_a_field_that_the_handler_left_alone_is_in_no_operation(data):
    """H4: minimal to the field."""
    raw = data.draw(machines())
    machine = from_dict(Machine, raw)
    after = replace(machine, spec=replace(machine.spec, speed=machine.spec.speed + 1))
    patch: JsonPatch = patch_of(raw, to_dict(machine), to_dict(after))
    assert [o.path for o in patch.operations] == ["/spec/speed"]
