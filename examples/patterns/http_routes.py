"""An ingress-like controller: all Routes of a namespace become the configuration file of one proxy.

Many objects lead to one, so the controller reconciles that one: a ConfigMap with an annotation. Each Route leads to
it. A Route whose host is taken by an older one is left out, and its status says so.
"""

from steersman import Conditions, Context, Key, MergePatch, Model, Operator, Resource, Watch, ready_when
from steersman.k8s import ConfigMap

PROXY = "proxy-configuration"


class RouteSpec(Model):
    host: str
    service: str
    port: int = 80


class RouteStatus(Model):
    conditions: Conditions = ()


class Route(Resource, group="patterns.example.com", version="v1"):
    """A host name that leads to a Service."""

    spec: RouteSpec
    status: RouteStatus = RouteStatus()


operator = Operator("http-routes")
operator.permit("patch", ConfigMap)


def by_host(routes: tuple[Route, ...]) -> dict[str, Route]:
    """The oldest Route of each host; names decide between Routes of one second."""
    order = sorted(routes, key=lambda r: (str(r.metadata.creation_timestamp), r.metadata.name), reverse=True)
    return {route.spec.host: route for route in order}


def proxy_of(route: Route) -> Key:
    return Key(route.metadata.namespace, PROXY)


@operator.controller(
    name="proxy",
    where=lambda found: found.metadata.name == PROXY,
    watches=[Watch(Route, to=proxy_of)],
)
async def configure(proxy: ConfigMap, ctx: Context) -> None:
    lines = [f"{host} http://{r.spec.service}:{r.spec.port}" for host, r in sorted(by_host(ctx.list(Route)).items())]
    if proxy.metadata.name == PROXY and proxy.data.get("routes") != "\n".join(lines):
        await ctx.patch(proxy, MergePatch({"data": {"routes": "\n".join(lines)}}))


def same_host(route: Route, ctx: Context) -> list[Key]:
    others = ctx.list(Route, namespace=route.metadata.namespace)
    return [Key(o.metadata.namespace, o.metadata.name) for o in others if o.spec.host == route.spec.host]


@operator.controller(watches=[Watch(Route, to=same_host)])
async def report(route: Route, ctx: Context) -> RouteStatus:
    winner = by_host(ctx.list(Route)).get(route.spec.host, route)
    accepted = winner.metadata.uid == route.metadata.uid
    return RouteStatus(conditions=ready_when(accepted, message=f"{route.spec.host} leads to {winner.metadata.name}"))
