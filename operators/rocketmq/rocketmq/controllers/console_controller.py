"""Reconciles every Console, which shows the name servers of a NameService."""

from steersman import Context, Key, Watch, key_of
from steersman.k8s import Deployment, Service

from rocketmq import consoles, nameservers
from rocketmq.api.v1.console_types import Console, ConsoleStatus
from rocketmq.api.v1.nameservice_types import NameService
from rocketmq.manager import operator


def shown_by(service: NameService, ctx: Context) -> list[Key]:
    """Return the keys of the Consoles that show a NameService."""
    name = service.metadata.name
    found = ctx.list(Console, namespace=service.metadata.namespace)
    return [key_of(each) for each in found if (each.spec.name_service or each.metadata.name) == name]


@operator.controller(owns=[Deployment, Service], watches=[Watch(NameService, to=shown_by)])
async def reconcile(console: Console, ctx: Context) -> ConsoleStatus:
    """Apply the children of the stage Sync, then report the status."""
    found = console.spec.name_servers
    if not found:
        service = ctx.get(NameService, console.spec.name_service or console.metadata.name)
        found = nameservers.stable_addresses(service) if service is not None else ()
    service_child, deployment = consoles.sync(console, found)
    await ctx.apply(service_child)
    return consoles.status(console, await ctx.apply(deployment), found, ctx.now())
