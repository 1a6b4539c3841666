"""The declarations that `Operator` collects, and its errors with the place in the source."""

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from steersman import (
    Backoff,
    Context,
    DeclarationError,
    Dynamic,
    Model,
    Operator,
    Resource,
    Result,
    SyncContext,
    Watch,
    WebhookOptions,
    dynamic,
    to_label,
)
from steersman.k8s import ConfigMap, Deployment, Pod, Secret
from steersman.predicates import generation_changed

if TYPE_CHECKING:
    from decimal import Decimal


class ThingSpec(Model):
    size: int = 1


class ThingStatus(Model):
    seen: int = 0


class Thing(Resource, group="tests.steersman.dev", version="v1"):
    spec: ThingSpec = ThingSpec()
    status: ThingStatus = ThingStatus()


class ThingV2(Resource, group="tests.steersman.dev", version="v2", kind="Thing"):
    spec: ThingSpec = ThingSpec()


@pytest.fixture
def operator():
    return Operator("test-operator")


def test_a_controller_reconciles_the_kind_of_its_first_parameter(operator):
    @operator.controller(owns=[Deployment], reads=[Pod], where=generation_changed, workers=2, timeout=30)
    async def reconcile(thing: Thing, ctx: Context) -> ThingStatus:
        return ThingStatus()

    (declared,) = operator.controllers
    assert declared.name == "thing"
    assert declared.kind.info.gvk == ("tests.steersman.dev", "v1", "Thing")
    assert [v.info.kind for v in (*declared.owns, *declared.reads)] == ["Deployment", "Pod"]
    assert (declared.workers, declared.timeout, declared.where) == (2, 30, generation_changed)
    assert declared.handler.is_async
    assert declared.place.file == __file__


def test_decorators_return_the_function_unchanged_so_that_it_can_be_tested(operator):
    async def reconcile(thing: Thing, ctx: Context) -> None: ...

    assert operator.controller(reconcile) is reconcile
    assert operator.finalizer("tests.steersman.dev/x")(reconcile) is reconcile


def test_a_bare_decorator_and_a_reconcile_without_context_work(operator):
    @operator.controller
    async def reconcile(thing: Thing) -> None: ...

    assert not operator.controllers[0].handler.takes_context


def test_a_class_with_a_reconcile_method_is_a_controller_and_so_is_an_instance(operator):
    @operator.controller
    class Reconciler:
        async def reconcile(self, thing: Thing, ctx: Context) -> Result | None: ...

    class WithCollaborators:
        def __init__(self, prices):
            self.prices = prices

        async def reconcile(self, pod: Pod, ctx: Context) -> None: ...

    operator.controller(name="prices")(WithCollaborators({}))
    assert [c.kind.info.kind for c in operator.controllers] == ["Thing", "Pod"]


def test_a_plain_function_runs_in_a_thread_and_gets_a_blocking_context(operator):
    @operator.controller
    def reconcile(thing: Thing, ctx: SyncContext) -> None: ...

    assert not operator.controllers[0].handler.is_async


def test_dynamic_kinds_are_named_by_an_argument(operator):
    @operator.controller(kind=dynamic("example.com/v1", "Widget"))
    async def reconcile(widget: Dynamic, ctx: Context) -> None: ...

    assert operator.controllers[0].kind.info.plural == "widgets"


def test_everything_else_is_collected(operator):  # noqa: C901 - a list of declarations
    @operator.controller
    async def reconcile(thing: Thing, ctx: Context) -> None: ...

    @operator.finalizer("tests.steersman.dev/one")
    async def one(thing: Thing, ctx: Context) -> None: ...

    @operator.finalizer("tests.steersman.dev/two")
    async def two(thing: Thing) -> None: ...

    @operator.timer(30, reads=[ConfigMap])
    async def tick(ctx: Context) -> None: ...

    @operator.on_startup
    async def begin() -> None: ...

    @operator.on_shutdown
    def end(ctx: SyncContext) -> None: ...

    operator.permit("get, create", Secret, names=["ca"])

    @operator.defaulter
    def default(thing: Thing) -> Thing: ...

    @operator.validator
    def validate(thing: Thing, old: Thing | None) -> None: ...

    @operator.mutator(on="create")
    def inject(pod: Pod) -> Pod: ...

    @operator.converter
    def up(old: Thing) -> ThingV2: ...

    refused(operator.check, "there is no conversion Thing: v2 → v1")

    @operator.converter
    def down(new: ThingV2) -> Thing: ...

    operator.check()
    assert [f.name for f in operator.finalizers] == ["tests.steersman.dev/one", "tests.steersman.dev/two"]
    assert [(t.name, t.interval) for t in operator.timers] == [("tick", 30)]
    assert [h.when for h in operator.hooks] == ["startup", "shutdown"]
    assert operator.permissions[0].verbs == ("get", "create")
    assert [w.purpose for w in operator.webhooks] == ["defaulter", "validator", "mutator", "converter", "converter"]
    assert [v.info.kind for v in operator.kinds()] == ["Thing", "ConfigMap"]


def test_a_controller_declares_the_delays_of_its_retries(operator):
    @operator.controller(backoff=Backoff(base=1, cap=60))
    async def reconcile(thing: Thing) -> None: ...

    @operator.controller(name="other")
    async def other(thing: Thing) -> None: ...

    assert [c.backoff for c in operator.controllers] == [Backoff(base=1, cap=60), Backoff()]


def test_a_mutator_and_a_converter_take_their_kinds_from_the_annotations(operator):
    @operator.mutator
    def inject(pod: Pod) -> Pod: ...

    @operator.converter
    def up(old: Thing) -> ThingV2: ...

    mutator, converter = operator.webhooks
    assert mutator.rule.path == "/mutate--v1-pod"
    assert (converter.kind.info.version, converter.to.info.version) == ("v1", "v2")


def test_a_converter_names_the_version_that_it_returns(operator):
    def up(old: Thing): ...

    refused(lambda: operator.converter(up), "annotate the result with the version", "target=")
    operator.converter(target=ThingV2)(up)
    refused(lambda: operator.converter(target=ThingV2)(up), "already declared at")
    refused(lambda: operator.converter(target=Thing)(up), "converts v1 to itself")


def test_a_class_is_a_webhook_by_the_method_of_its_purpose(operator):
    class Limits:
        def validate(self, thing: Thing) -> None: ...

    operator.validator(Limits)
    assert operator.webhooks[0].takes == ("object",)
    refused(lambda: operator.defaulter(Limits), "is a class without a `default` method")


def refused(declare, *words):
    with pytest.raises(DeclarationError) as problem:
        declare()
    text = str(problem.value)
    for word in words:
        assert word in text, text
    return text


def test_a_wrong_signature_is_refused_with_file_line_and_name(operator):
    async def reconcile(a: Thing, b: Context, c: int) -> None: ...

    line = reconcile.__code__.co_firstlineno
    text = refused(lambda: operator.controller(reconcile), f"{__file__}:{line}", "reconcile", "takes 3 parameters")
    assert "expected `(obj: Kind, ctx: Context)`" in text


async def _unannotated(thing, ctx): ...
async def _no_resource(thing: int, ctx: Context): ...
async def _no_kind(thing: Dynamic, ctx: Context): ...
async def _unresolvable(thing: "Decimal", ctx: Context): ...
async def _stars(*things: Thing): ...
async def _generator(thing: Thing, ctx: Context):
    yield


async def _blocking_context(thing: Thing, ctx: SyncContext): ...
def _async_context(thing: Thing, ctx: Context): ...


class _NoMethod: ...


class _Demanding:
    def __init__(self, price): ...
    async def reconcile(self, thing: Thing, ctx: Context): ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_unannotated, "the first parameter, 'thing', selects the kind: annotate it"),
        (_no_resource, "annotated int, which is not a Resource class"),
        (_no_kind, "pass kind=dynamic("),
        (_unresolvable, "outside `if TYPE_CHECKING`"),
        (_stars, "takes *things"),
        (_generator, "is a generator"),
        (_blocking_context, "is async, so its 'ctx' is a Context, not a SyncContext"),
        (_async_context, "is a plain `def`, which runs in a thread, so its 'ctx' is a SyncContext"),
        (_NoMethod, "a class without a `reconcile` method"),
        (_Demanding, "pass an instance instead"),
        (42, "neither a function nor something with a `reconcile` method"),
    ],
)
def test_a_function_that_cannot_be_a_reconcile_is_refused(operator, function, words):
    refused(lambda: operator.controller(function), words)


def _hook(pod): ...


async def _fine(thing: Thing, ctx: Context): ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"owns": Deployment}, "owns= takes a list of kinds"),
        ({"reads": [int]}, "reads=:"),
        ({"watches": [Pod]}, "watches= takes Watch(Kind, to=…)"),
        ({"watches": [Watch(int, to=to_label("x"))]}, "watches=:"),
        ({"workers": 0}, "workers=0: at least 1"),
        ({"timeout": 0}, "timeout=0: seconds, more than 0"),
        ({"debounce": -1}, "debounce=-1: seconds, more than 0"),
        ({"backoff": 5.0}, "backoff= takes Backoff(base=…, cap=…), not 5.0"),
        ({"kind": Pod}, "kind= says Pod, but the first parameter is annotated Thing"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(operator, options, words):
    refused(lambda: operator.controller(**options)(_fine), words)


def test_two_controllers_of_one_name_are_refused_with_both_places(operator):
    operator.controller(_fine)
    text = refused(lambda: operator.controller(_fine), "named 'thing' is already declared at", "give this one a name=")
    assert text.count(__file__) == 2
    operator.controller(name="other")(_fine)


@pytest.mark.parametrize("name", ["", "Demo", "demo_operator", "-demo", "d" * 64])
def test_an_operator_has_a_dns_label_as_its_name(name):
    refused(lambda: Operator(name), "DNS label")


def test_an_operator_without_anything_to_do_says_so(operator):
    refused(operator.check, "has no controller, no timer and no webhook")


def test_a_finalizer_needs_a_qualified_name_and_a_controller_of_its_kind(operator):
    refused(lambda: operator.finalizer("cleanup")(_fine), "write domain/name")
    operator.finalizer("tests.steersman.dev/cleanup")(_fine)
    refused(lambda: operator.finalizer("tests.steersman.dev/cleanup")(_fine), "already declared at")
    refused(operator.check, "has no controller")
    operator.timer(1)(_tick)
    refused(operator.check, "needs a controller for Thing")


async def _tick(): ...


def test_other_declarations_are_checked_too(operator):
    refused(lambda: operator.timer(0)(_tick), "seconds, more than 0")
    operator.timer(5)(_tick)
    refused(lambda: operator.timer(5)(_tick), "already declared")
    refused(lambda: operator.permit("fetch", Secret), "verbs are")
    refused(lambda: operator.mutator(kind=Pod, on="creation")(_hook), "on='creation'")
    refused(lambda: operator.mutator(kind=Pod, on="delete")(_hook), "cannot be changed")
    refused(lambda: operator.mutator(kind=Pod)(_tick), "expected `(obj: Kind)`")
    refused(lambda: operator.mutator(kind=Pod, options=WebhookOptions(timeout=60))(_hook), "from 1 to 30")
    refused(
        lambda: operator.validator(kind=Pod, options=WebhookOptions(reinvocation="IfNeeded"))(_hook),
        "mutating webhooks only",
    )
    operator.mutator(kind=Pod)(_hook)
    refused(lambda: operator.mutator(kind=Pod)(_hook), "/mutate--v1-pod is already declared", "name=")
    operator.mutator(kind=Pod, name="second")(_hook)
    refused(lambda: operator.converter(source=Thing, target=Pod)(_hook), "between versions of one kind")
    refused(lambda: operator.on_startup(_fine), "expected `(ctx: Context)` or no parameter")


def test_import_steersman_loads_no_room_and_every_public_name_is_there():
    program = (
        "import sys, steersman\n"
        "loaded = {m for m in sys.modules if m.startswith('steersman.')} - {'steersman.version'}\n"
        "assert not loaded, loaded\n"
        "missing = [n for n in steersman.__all__ if not hasattr(steersman, n)]\n"
        "assert not missing, missing\n"
        "try:\n"
        "    steersman.Opperator\n"
        "except AttributeError as problem:\n"
        "    assert 'Opperator' in str(problem)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_module_of_types_does_not_load_the_runtime():
    program = (
        "import sys\n"
        "from steersman import Column, Conditions, Ge, MinLength, Model, Resource, Scale\n"
        "rooms = {m.split('.')[1] for m in sys.modules if m.startswith('steersman.')}\n"
        "assert rooms - {'version'} == {'models'}, rooms\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
