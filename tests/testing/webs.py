"""A small operator for the tests of the kit: a ConfigMap for every Web, with its colour."""

from __future__ import annotations

from steersman import Context, Model, ObjectMeta, Operator, Resource
from steersman.k8s import ConfigMap, Secret


class WebSpec(Model):
    colour: str = "blue"


class WebStatus(Model):
    colour: str = ""


class Web(Resource, group="tests.steersman.dev", version="v1"):
    """A web site."""

    spec: WebSpec
    status: WebStatus = WebStatus()


def web(name: str, colour: str = "blue") -> dict[str, object]:
    spec = {"colour": colour}
    return {"apiVersion": "tests.steersman.dev/v1", "kind": "Web", "metadata": {"name": name}, "spec": spec}


operator = Operator("webs")


@operator.controller(owns=[ConfigMap])
async def reconcile(site: Web, ctx: Context) -> WebStatus:
    metadata = ObjectMeta(name=site.metadata.name, namespace=site.metadata.namespace)
    await ctx.apply(ConfigMap(metadata=metadata, data={"colour": site.spec.colour}))
    ctx.log.info("painted", colour=site.spec.colour)
    return WebStatus(colour=site.spec.colour)


greedy = Operator("greedy")
"""Reads a kind that it does not declare."""


@greedy.controller
async def reads_a_secret(site: Web, ctx: Context) -> WebStatus:
    await ctx.fetch(Secret, "password")
    return WebStatus(colour=site.spec.colour)
