"""A webhook for a built-in kind: Services need an owner, and the default port gets a name."""

from steersman import DeniedError, Operator, replace
from steersman.k8s import Service

operator = Operator("required-labels")


@operator.mutator(on=("create", "update"))
async def name_ports(service: Service) -> Service:
    ports = [port if port.name else replace(port, name=f"port-{port.port}") for port in service.spec.ports]
    return replace(service, spec=replace(service.spec, ports=tuple(ports)))


@operator.validator(on=("create", "update"))
async def has_owner(service: Service) -> list[str]:
    if "owner" not in service.metadata.labels:
        raise DeniedError(f"Service {service.metadata.name} needs the label owner: add metadata.labels.owner")
    return ["type LoadBalancer costs money"] if service.spec.type == "LoadBalancer" else []
