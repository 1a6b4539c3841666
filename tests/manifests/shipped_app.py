"""An operator with everything: webhooks, two versions, a cluster-scoped kind."""

from steersman import Context, Model, Operator, Resource
from steersman.k8s import ConfigMap, Deployment, Pod


class OldSpec(Model):
    size: int = 1
    """How many; templates look like {{ .Values.x }}."""


class Spec(Model):
    replicas: int = 1
    image: str


class WidgetV1(Resource, group="pkg.example.com", version="v1", kind="Widget", storage=False):
    spec: OldSpec = OldSpec()


class Widget(Resource, group="pkg.example.com", version="v2", kind="Widget"):
    spec: Spec
    status: OldSpec = OldSpec()


class Fleet(Resource, group="pkg.example.com", version="v1", namespaced=False):
    spec: OldSpec = OldSpec()


operator = Operator("widgets")


@operator.controller(owns=[Deployment], reads=[ConfigMap])
async def reconcile(obj: Widget, ctx: Context) -> None: ...


@operator.controller
async def fleets(obj: Fleet, ctx: Context) -> None: ...


@operator.defaulter
def fill(obj: Widget) -> Widget | None: ...


@operator.validator
def judge(obj: Widget) -> None: ...


def judge_fleet(obj: Fleet) -> None:
    """Declared by tests that need an operator without conversions."""


@operator.converter
def up(obj: WidgetV1) -> Widget: ...


@operator.converter
def down(obj: Widget) -> WidgetV1: ...


@operator.mutator(on="create")
def inject(pod: Pod) -> Pod | None: ...
