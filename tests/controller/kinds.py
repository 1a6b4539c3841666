"""The kinds that the tests of writers use."""

from steersman.models import Conditions, Model, ObjectMeta, Resource

__all__ = ["App", "AppSpec", "AppStatus", "ObjectMeta", "Plain"]


class AppSpec(Model):
    size: int = 1


class AppStatus(Model):
    observed_generation: int = 0
    ready: int = 0
    pods: tuple[str, ...] = ()
    conditions: Conditions = ()


class App(Resource, group="tests.steersman.dev", version="v1"):
    """Something with a status."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AppSpec = AppSpec()
    status: AppStatus = AppStatus()


class Plain(Resource, group="tests.steersman.dev", version="v1"):
    """Something without."""

    metadata: ObjectMeta = ObjectMeta()
