"""The kind NameService: name servers with stable names, and what the operator reports of them."""

from typing import Annotated

from steersman import CEL, Column, Conditions, Ge, Le, Model, Resource, Scale
from steersman.models.markers import Format

from rocketmq.api.v1.pods import Image, PodFields, Port


class NameServiceSpec(PodFields):
    size: Annotated[int, Ge(1), Le(9)] = 1
    """Number of name servers. Each holds all routes, and they do not talk to each other."""
    name_service_image: Image
    """Image of the name server."""
    port: Port = 9876


class NameServiceStatus(Model):
    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    name_servers: tuple[str, ...] = ()
    """Addresses of the name servers that are ready."""
    size: Annotated[int, Format("int32")] | None = None
    """Number of name servers, for the scale subresource."""
    selector: str = ""
    conditions: Conditions = ()
    """Available and Progressing."""


class NameService(
    Resource,
    group="rocketmq.daocloud.io",
    version="v1",
    short_names=("rmqns",),
    scale=Scale(spec="spec.size", status="status.size", selector="status.selector"),
    columns=(
        Column("Size", "spec.size"),
        Column("Available", ".status.conditions[?(@.type=='Available')].status", type="string"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """RocketMQ name servers."""

    __rules__ = (
        CEL(
            "size(self.metadata.name) <= 44",
            message="the name may have 44 characters: the StatefulSet appends -namesrv, and 52 is its limit",
        ),
    )

    spec: NameServiceSpec
    status: NameServiceStatus = NameServiceStatus()
