"""The HelloApp kind: its spec and its status. `make manifests` generates its CRD."""

from typing import Annotated

from steersman import Column, Conditions, Ge, Le, MinLength, Model, Resource, Scale


class HelloAppSpec(Model):
    image: Annotated[str, MinLength(1)]
    """Container image that every replica runs."""
    size: Annotated[int, Ge(0), Le(100)] = 1
    """Number of replicas."""


class HelloAppStatus(Model):
    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    ready_replicas: int = 0
    """Number of replicas that are ready to serve."""
    pods: tuple[str, ...] = ()
    """Names of the Pods of this application, sorted."""
    selector: str = ""
    """Label selector of the Pods, for the scale subresource."""
    conditions: Conditions = ()
    """`Ready` is True when the desired number of replicas is ready."""


class HelloApp(
    Resource,
    group="apps.anupam.com",
    version="v1",
    short_names=("ha",),
    scale=Scale(spec="spec.size", status="status.ready_replicas", selector="status.selector"),
    columns=(Column("Size", "spec.size"), Column("Ready", "status.ready_replicas")),
):
    """A web application that runs `size` copies of `image`."""

    spec: HelloAppSpec
    status: HelloAppStatus = HelloAppStatus()
