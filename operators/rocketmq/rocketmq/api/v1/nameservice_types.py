"""The kind NameService: name servers with stable names, and what the operator reports of them."""

from typing import Annotated

from steersman import CEL, Column, Conditions, Ge, Le, Model, Resource, Scale
from steersman.models.markers import Format

from rocketmq.api.v1.pods import Image, PodFields, Port


class NameServiceSpec(PodFields):
    """The desired state of name servers."""

    size: Annotated[int, Ge(1), Le(9)] = 1
    """Number of name servers. Each has all routes, and they do not communicate with each other."""
    name_service_image: Image
    """Container image of the name server."""
    port: Port = 9876
    """TCP port of the name servers."""


class NameServiceStatus(Model):
    """The observed state of name servers."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    name_servers: tuple[str, ...] = ()
    """Addresses (host:port) of the ready name servers."""
    size: Annotated[int, Format("int32")] | None = None
    """Number of name servers, for the scale subresource."""
    selector: str = ""
    """Label selector of the Pods, for the scale subresource."""
    conditions: Conditions = ()
    """The conditions Available and Progressing."""


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
