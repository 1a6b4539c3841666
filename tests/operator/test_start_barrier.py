"""A reconcile starts only after the sync of all kinds that it reads."""

from typing import Any, cast

import pytest

from steersman.controller import Request
from steersman.k8s import ConfigMap, Deployment
from steersman.models import Key, View, view_of
from steersman.operator.cache_reader import CacheReader
from steersman.operator.declarations import ControllerDeclaration, Handler, Place
from steersman.operator.reconciler import Reconciler

WEB, OTHER = Key("prod", "web"), Key("prod", "other")
OWN, CHILD = view_of(ConfigMap), view_of(Deployment)


class Outstanding:
    """A cache and a runtime in which some own writes have not come back."""

    def __init__(self, *writes: tuple[View[Any], Key]) -> None:
        self.writes = writes
        self.waited: list[tuple[View[Any], Key | None]] = []
        self.cache = self
        self.tracing = None

    def outstanding(self, kind: View[Any], key: Key | None = None) -> bool:
        return any(view == kind and key in (None, written) for view, written in self.writes)

    async def read_barrier(self, kind: View[Any], key: Key | None = None, timeout: float = 0) -> bool:
        self.waited.append((kind, key))
        return True

    def entry(self, _gvk: object, _key: Key) -> None:
        return None


@pytest.mark.parametrize(
    ("reads", "writes", "waited"),
    [
        ((), [], []),
        ((), [(OWN, OTHER)], []),
        ((), [(OWN, WEB), (OWN, OTHER)], [(OWN, WEB)]),
        ((OWN,), [(OWN, OTHER)], [(OWN, None)]),
        ((CHILD,), [(CHILD, OTHER)], [(CHILD, None)]),
        ((), [(CHILD, OTHER)], []),
    ],
)
async def test_a_reconcile_waits_for_its_own_object_and_for_the_kinds_that_it_may_list(reads, writes, waited):
    """C2: of the own kind only the write to this object holds a reconcile back; of other kinds every write does."""
    runtime = Outstanding(*writes)
    handler = Handler(lambda obj: None, True, True, False, Place("app.py", 1, "reconcile"))
    declaration = ControllerDeclaration("app", OWN, handler)
    reader = CacheReader(cast(Any, runtime), cast(Any, None), reads, "app")
    reconciler = Reconciler(declaration, (), cast(Any, runtime), reader, alone=True)
    assert await reconciler.reconcile(Request(WEB)) is None
    assert runtime.waited == waited
