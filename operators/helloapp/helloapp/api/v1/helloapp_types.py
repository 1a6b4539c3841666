"""The kind HelloApp: what its users write, and what the operator reports. `make manifests` makes its CRD of it."""

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
    """Label selector of the Pods, as the scale sub-resource wants it."""
    conditions: Conditions = ()
    """`Ready` is True when as many replicas are ready as the spec asks for."""


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
