"""The Secret with the certificates of a cluster, and its changes."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from steersman import Context, MergePatch
from steersman.controller import controller_of
from steersman.k8s import Secret

from mysqlcluster import children, names
from mysqlcluster.certificate_process import create_certificates
from mysqlcluster.certificate_rotation import ROTATE_CERTIFICATES, next_change, renewal_reason
from mysqlcluster.desired import AnyCluster, Desired
from mysqlcluster.observation import Observation

__all__ = ["authority_of", "rotate_certificates"]


async def authority_of(want: Desired, ctx: Context) -> str:
    """Return the authorities that the operator trusts; the Secret is created if it is missing."""
    name = names.tls_name(want.key.name)
    found = ctx.get(Secret, name)
    data = found.data if found is not None else await create_certificates(want.key, ctx.now())
    if found is None:
        await ctx.create(children.tls_secret(want, data))
        ctx.log.info("certificate_created", secret=name, reason="missing")
    return data["ca.crt"].decode()


async def rotate_certificates(cluster: AnyCluster, want: Desired, seen: Observation, ctx: Context) -> None:
    """Write the next change of the certificates, if there is one and the operator owns the Secret."""
    secret = ctx.get(Secret, names.tls_name(want.key.name))
    owner = controller_of(secret) if secret is not None else None
    if secret is None or owner is None or owner.uid != cluster.metadata.uid:
        return
    request = cluster.metadata.annotations.get(ROTATE_CERTIFICATES, "")
    revisions = [each.tls_revision for each in seen.members]
    notes, now = secret.metadata.annotations, ctx.now()
    made: Mapping[str, bytes] = {}
    if renewal_reason(secret.data, notes, request, now):
        made = await create_certificates(want.key, now)
    change = next_change(secret.data, notes, request, revisions, now, made)
    if change is None:
        return
    data = {key: base64.b64encode(value).decode() if value else None for key, value in change.data.items()}
    metadata = {"resourceVersion": secret.metadata.resource_version, "annotations": dict(change.annotations)}
    await ctx.patch(secret, MergePatch({"metadata": metadata, "data": data}))
    ctx.log.info("certificates_changed", secret=secret.metadata.name, reason=change.reason)
    if change.completed:
        ctx.event("CertificatesRotated", "all members use the new certificates", action="Rotate")
