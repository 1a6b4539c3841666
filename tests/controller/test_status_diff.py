"""The quick difference of two statuses says what the generic one says."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.controller.status import status_patch
from steersman.controller.status_diff import difference
from steersman.models import Condition, Conditions, MergePatch, Model, ObjectMeta, Quantity, decode, to_dict
from steersman.models.base import EMPTY
from steersman.models.patches import PatchError

from .kinds import App, AppStatus


class Inner(Model):
    text: str = ""
    names: tuple[str, ...] = ()
    deeper: "Inner | None" = None


class Omitting(Model, omit_empty=True):
    count: int = 0
    on: bool = False
    text: str = ""


class Wide(Model):
    observed_generation: int = 0
    ready: bool = False
    share: float = 0.0
    either: int | float | str | bool | None = None
    phase: str = ""
    note: str | None = None
    since: datetime | None = None
    size: Quantity | None = None
    inner: Inner = Inner()
    maybe: Inner | None = None
    omitting: Omitting = Omitting()
    labels: Mapping[str, str] = EMPTY
    parts: Mapping[str, Inner] = EMPTY
    pods: tuple[str, ...] = ()
    conditions: Conditions = ()


texts = st.sampled_from(["", "a", "b", "é\u2028"])
numbers = st.sampled_from([0, 1, 2, 1000])
times = st.none() | st.sampled_from(
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=UTC),
    ]
)
leaves = st.builds(Inner, text=texts, names=st.lists(texts, max_size=2).map(tuple))
inners = leaves | st.builds(Inner, text=texts, deeper=st.none() | leaves)
conditions = st.lists(
    st.builds(Condition, type=texts, status=st.sampled_from(["True", "False"]), last_transition_time=times), max_size=2
).map(tuple)
statuses = st.builds(
    Wide,
    observed_generation=numbers,
    ready=st.booleans(),
    share=st.sampled_from([0.0, 1.0, 0.5]),
    either=st.sampled_from([None, 0, 1, 1.0, True, False, "1", ""]),
    phase=texts,
    note=st.none() | texts,
    since=times,
    size=st.none() | st.sampled_from(["1", "1000m", "2Gi"]).map(Quantity),
    inner=inners,
    maybe=st.none() | inners,
    omitting=st.builds(Omitting, count=st.sampled_from([0, 7]), on=st.booleans(), text=texts),
    labels=st.dictionaries(texts, texts, max_size=2),
    parts=st.dictionaries(texts, inners, max_size=2),
    pods=st.lists(texts, max_size=2).map(tuple),
    conditions=conditions,
)


def touches_lists(before: Any, body: Any) -> bool:
    """Whether a merge patch sets or removes a list anywhere, in the plainest words."""
    if isinstance(body, list):
        return True
    if body is None:
        return isinstance(before, list) or (isinstance(before, dict) and any(map(has_list, before.values())))
    if not isinstance(body, dict):
        return False
    present = before if isinstance(before, dict) else {}
    return any(touches_lists(present.get(name), value) for name, value in body.items())


def has_list(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, dict) and any(map(has_list, value.values())))


@given(statuses, statuses, st.booleans())
def test_models_differ_as_their_wire_forms_do(old: Wide, new: Wide, as_read: bool):
    """A3: the patch is that of the generic difference, and knows whether it replaces lists."""
    if as_read:  # as it comes from the cluster: equal values, other identities
        old = decode(Wide, b"%s" % MergePatch(old).encode())
    expected = MergePatch.diff(to_dict(old), to_dict(new)).body
    found, lists = difference(old, new)
    assert to_dict(found) == expected
    assert lists == touches_lists(to_dict(old), expected)
    assert to_dict(MergePatch(found).apply(to_dict(old))) == to_dict(new)


@given(st.none() | statuses | statuses.map(to_dict), statuses | statuses.map(to_dict))
def test_mappings_and_absent_statuses_differ_in_their_wire_forms(old: Any, new: Any):
    """A3: whatever form a status has, the patch is that of the wire forms."""
    before = {} if old is None else to_dict(old)
    assert to_dict(difference(old, new)[0]) == MergePatch.diff(before, to_dict(new)).body


def test_a_null_that_a_merge_patch_cannot_say_is_refused():
    class Odd(Model):
        value: int | None

    with pytest.raises(PatchError, match="cannot set null"):
        difference(Odd(value=1), Odd(value=None))


def test_equal_statuses_need_no_patch():
    """A2: status is written only when it changes."""
    app = App(metadata=ObjectMeta(name="web", uid="u", resource_version="1"))
    assert status_patch(app, AppStatus(pods=("a",)), AppStatus(pods=("a",))) is None
