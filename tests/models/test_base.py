import copy
import pickle
from collections.abc import Mapping
from typing import Annotated, Any, Optional, cast

import pytest

from steersman.models import EMPTY, FrozenDict, Model, decode, encode, field, replace


class Inner(Model):
    on: bool = False


class Everything(Model):
    name: str
    size: int = 1
    ratio: float = 0.0
    paused: bool = False
    label: str = ""
    maybe: int | None = None
    items: tuple[int, ...] = ()
    labels: Mapping[str, str] = EMPTY
    inner: Inner = Inner()
    pod_ip: str | None = field(default=None, name="podIP")
    port: int = field(default=80, name="portNumber")


def test_absent_is_none_or_empty_and_scalars_are_always_written():
    assert encode(Everything(name="")) == (
        b'{"name":"","size":1,"ratio":0.0,"paused":false,"label":"","portNumber":80}'
    )


def test_what_is_set_is_written_under_its_wire_name():
    full = Everything(name="a", maybe=0, items=(1,), labels={"a": "b"}, inner=Inner(on=True), pod_ip="::1")

    assert decode(Everything, encode(full)) == full
    assert b'"podIP":"::1"' in encode(full)
    assert b'"maybe":0' in encode(full)


def test_models_are_immutable_hashable_values():
    one, two = Everything(name="a", labels={"x": "y"}), Everything(name="a", labels={"x": "y"})

    assert one == two
    assert hash(one) == hash(two)
    with pytest.raises(AttributeError):
        one.name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError, match="immutable"):
        one.labels["x"] = "z"  # type: ignore[index]


def test_the_mapping_that_was_passed_in_is_not_shared():
    labels = {"a": "b"}
    model = Everything(name="a", labels=labels)

    labels["a"] = "changed"

    assert model.labels == {"a": "b"}


def test_replace_changes_a_copy():
    model = Everything(name="a")

    assert replace(model, size=5).size == 5
    assert model.size == 1
    with pytest.raises(TypeError):
        replace(model, sizes=5)


def test_frozen_dicts_copy_pickle_and_refuse_change():
    frozen: FrozenDict[str, int] = FrozenDict({"a": 1})

    assert copy.deepcopy(frozen) is frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    for change in (frozen.clear, frozen.popitem):
        with pytest.raises(TypeError, match="immutable"):
            change()


class Go(Model, omit_empty=True):
    name: str = ""
    count: int = 0


def test_omit_empty_leaves_zero_scalars_out_as_go_does():
    assert encode(Go()) == b"{}"
    assert encode(Go(count=1)) == b'{"count":1}'


class Account(Model, hidden=("password",)):
    user: str
    password: str


def test_hidden_fields_do_not_show():
    account = Account(user="jane", password="hunter2")

    assert repr(account) == "Account(user='jane', password=…)"
    assert "hunter2" not in repr([*cast(Any, account).__rich_repr__()])
    assert b"hunter2" in encode(account)


def test_a_repr_shows_what_is_set():
    assert repr(Everything(name="a", maybe=3)).startswith("Everything(name='a'")
    assert "labels" not in repr(Everything(name="a"))
    assert "maybe=3" in repr(Everything(name="a", maybe=3))


class Child(Everything):
    extra: Mapping[str, Any] = EMPTY

    def __post_init__(self) -> None:
        if "bad" in self.extra:
            raise ValueError("bad is not allowed")


def test_a_subclass_inherits_fields_and_keeps_its_own_check():
    child = decode(Child, b'{"name":"a","labels":{"a":"b"},"extra":{"ok":1}}')

    assert type(child.labels) is type(child.extra) is FrozenDict
    with pytest.raises(ValueError, match="bad is not allowed"):
        Child(name="a", extra={"bad": 1})


class Optionals(Model):
    plain: Mapping[str, str] | None = None
    older: Optional[Mapping[str, str]] = None  # noqa: UP045 - users write it
    text: "Optional[Mapping[str, str]]" = None  # noqa: UP045
    either: Annotated[int | dict[str, int], "marked"] = 0


def test_mappings_are_frozen_wherever_their_type_hides():
    labels = {"a": "b"}
    model = Optionals(plain=labels, older=labels, text=labels, either={"a": 1})

    assert {type(v) for v in (model.plain, model.older, model.text, model.either)} == {FrozenDict}
    assert Optionals(either=3).either == 3
    assert encode(Optionals()) == b'{"either":0}'
