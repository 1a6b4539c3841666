"""The Widget kind of the benchmarks, typed as a user of Steersman types it."""

from steersman.models import Model, Resource


class EnvVar(Model):
    name: str
    value: str = ""


class Resources(Model):
    cpu: str = ""
    memory: str = ""


class WidgetSpec(Model):
    image: str
    replicas: int = 0
    port: int = 0
    env: tuple[EnvVar, ...] = ()
    resources: Resources = Resources()
    schedule: str = ""
    suspend: bool = False


class WidgetStatus(Model):
    observed_generation: int = 0
    phase: str = ""
    ready_replicas: int = 0
    endpoint: str = ""


class Widget(Resource, group="bench.steersman.dev", version="v1"):
    """The custom resource of the benchmarks."""

    spec: WidgetSpec
    status: WidgetStatus = WidgetStatus()
