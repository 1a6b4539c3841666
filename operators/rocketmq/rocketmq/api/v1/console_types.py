"""The kind Console: a web console in an image that the user chooses."""

from typing import Annotated

from steersman import Column, Conditions, Ge, Le, Model, Resource, Scale
from steersman.models.markers import Format

from rocketmq.api.v1.pods import Addresses, Image, Name, PodFields, Port


class ConsoleSpec(PodFields):
    """The desired state of a console."""

    size: Annotated[int, Ge(0), Le(9)] = 1
    """Number of Pods."""
    console_image: Image
    """Container image of the console."""
    port: Port = 8080
    """TCP port of the console."""
    name_servers: Addresses = ()
    """Addresses (host:port) of external name servers. Default: those of `nameService`."""
    name_service: Name = ""
    """Name of the NameService that the console shows. Default: the name of the Console."""


class ConsoleStatus(Model):
    """The observed state of a console."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    name_servers: tuple[str, ...] = ()
    """Addresses (host:port) of the name servers."""
    size: Annotated[int, Format("int32")] | None = None
    """Number of Pods, for the scale subresource."""
    selector: str = ""
    """Label selector of the Pods, for the scale subresource."""
    conditions: Conditions = ()
    """The condition Available."""


class Console(
    Resource,
    group="rocketmq.daocloud.io",
    version="v1",
    short_names=("rmqui",),
    scale=Scale(spec="spec.size", status="status.size", selector="status.selector"),
    columns=(
        Column("Size", "spec.size"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """A web console for RocketMQ."""

    spec: ConsoleSpec
    status: ConsoleStatus = ConsoleStatus()
