"""Connections to Pods before they are made: admission sees each with its options, as an object of their own kind."""

from __future__ import annotations

from typing import Any, Final

from steersman_cluster.admission import CONNECT, Write
from steersman_cluster.api.connect.pod_options import exec_options, ports_of
from steersman_cluster.api.interfaces import Call
from steersman_cluster.objects import Object

__all__ = ["CONNECTS", "admit"]

CONNECTS: Final = frozenset(("exec", "attach", "portforward", "proxy"))
"""The sub-resources that are connections."""
_KINDS: Final = {
    ("pods", "exec"): "PodExecOptions",
    ("pods", "attach"): "PodAttachOptions",
    ("pods", "portforward"): "PodPortForwardOptions",
    ("pods", "proxy"): "PodProxyOptions",
    ("services", "proxy"): "ServiceProxyOptions",
    ("nodes", "proxy"): "NodeProxyOptions",
}


async def admit(call: Call) -> None:
    """Ask admission for a connection; nothing for other calls. Raises `APIError` where it is refused.

    What webhooks change of the options is not looked at.
    """
    if call.subresource not in CONNECTS:
        return
    kind = _KINDS[call.resource.plural, call.subresource]
    write = Write(
        operation=CONNECT,
        group=call.resource.group,
        version=call.resource.version,
        kind=kind,
        resource=call.resource.plural,
        namespace=call.namespace,
        name=call.name,
        obj={"kind": kind, "apiVersion": "v1", **_options(call)},
        old=None,
        user=call.user,
        context=call.context,
        subresource=call.subresource,
        warnings=call.warnings,
    )
    admission = call.server.admission
    if admission.needs_async(write):
        await admission.mutate(write)
        await admission.validate(write)
    else:
        admission.mutate_now(write)
        admission.validate_now(write)


def _options(call: Call) -> Object:
    if call.subresource == "proxy":
        return {"path": f"/{call.rest}"} if call.rest else {}
    if call.subresource == "portforward":
        ports = ports_of(call)
        return {"ports": ports} if ports else {}
    options = exec_options(call)
    given: dict[str, Any] = {name: True for name in ("stdin", "stdout", "stderr", "tty") if getattr(options, name)}
    if container := call.options.get("container"):
        given["container"] = container
    if options.command and call.subresource == "exec":
        given["command"] = list(options.command)
    return given
