"""Time per object: a ConfigMap with an expiry is deleted at that time, without polling."""

from datetime import datetime

from steersman import Context, Operator, Result, TerminalError
from steersman.k8s import ConfigMap

EXPIRES = "patterns.example.com/expires"

operator = Operator("expiring")
operator.permit("delete", ConfigMap)


@operator.controller(where=lambda found: EXPIRES in found.metadata.annotations)
async def reconcile(found: ConfigMap, ctx: Context) -> Result | None:
    text = found.metadata.annotations.get(EXPIRES)
    if text is None:
        return None
    try:
        left = (datetime.fromisoformat(text) - ctx.now()).total_seconds()
    except (TypeError, ValueError):
        raise TerminalError(f"{EXPIRES}: {text!r} is no time such as 2030-01-01T12:00:00+00:00") from None
    if left > 0:
        return Result(requeue_after=left)
    await ctx.delete(found)
    return None
