"""The kind Console: a web console in an image that the user chooses."""

from typing import Annotated

from steersman import Column, Conditions, Ge, Le, Model, Resource, Scale
from steersman.models.markers import Format

from rocketmq.api.v1.pods import Addresses, Image, Name, PodFields, Port


class ConsoleSpec(PodFields):
    size: Annotated[int, Ge(0), Le(9)] = 1
    """Number of Pods."""
    console_image: Image
    """Image of the console."""
    port: Port = 8080
    """Port that the console listens on."""
    name_servers: Addresses = ()
    """Addresses of name servers outside; found through `nameService` by default."""
    name_service: Name = ""
    """NameService that is shown; the one with the name of the Console by default."""


class ConsoleStatus(Model):
    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    name_servers: tuple[str, ...] = ()
    size: Annotated[int, Format("int32")] | None = None
    """Number of Pods, for the scale subresource."""
    selector: str = ""
    conditions: Conditions = ()
    """Available."""


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
