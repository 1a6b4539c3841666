"""An operator with every kind of webhook, for the tests of simulations."""

from __future__ import annotations

import asyncio

from steersman import Context, DeniedError, Model, Operator, Resource
from steersman.models import replace


class GateSpec(Model):
    colour: str = ""


class OldGateSpec(Model):
    paint: str = ""


class Gate(Resource, group="tests.steersman.dev", version="v1"):
    """A gate, painted."""

    spec: GateSpec = GateSpec()


class OldGate(Resource, group="tests.steersman.dev", version="v1beta1", kind="Gate", storage=False):
    """A gate, as it was described before."""

    spec: OldGateSpec = OldGateSpec()


operator = Operator("guarded")


@operator.controller
async def reconcile(gate: Gate, ctx: Context) -> None:
    if gate.spec.colour == "red":
        secret = "the-token-of-the-gate"  # noqa: F841 - a value that no log may show
        raise RuntimeError("red gates do not open")


@operator.defaulter
async def default_colour(gate: Gate) -> Gate:
    return replace(gate, spec=replace(gate.spec, colour=gate.spec.colour or "green"))


@operator.validator
def refuse_grey(gate: Gate) -> None:
    if gate.spec.colour == "grey":
        raise DeniedError("grey is no colour")


@operator.validator(name="slow")
async def take_a_minute(gate: Gate) -> None:
    if gate.spec.colour == "slow":
        await asyncio.sleep(60)


@operator.converter
async def forth(gate: OldGate) -> Gate:
    return Gate(metadata=gate.metadata, spec=GateSpec(colour=gate.spec.paint))


@operator.converter
async def back(gate: Gate) -> OldGate:
    return OldGate(metadata=gate.metadata, spec=OldGateSpec(paint=gate.spec.colour))
