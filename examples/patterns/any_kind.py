"""Dynamic kinds: a controller of a kind without a class, as of another project's CRD.

`steersman models` makes classes from CRDs; a dynamic kind is for few fields, or for kinds that are known at run time.
"""

from typing import Any

from steersman import Context, Dynamic, MergePatch, Operator, dynamic

Certificate: Any = dynamic("certs.example.com/v1", "Certificate")

operator = Operator("certificate-labels")
operator.permit("patch", Certificate)


@operator.controller(kind=Certificate)
async def reconcile(certificate: Dynamic, ctx: Context) -> None:
    issuer = certificate.get("spec", "issuerRef", "name", default="none")
    if certificate.metadata.labels.get("issuer") != issuer:
        patch = MergePatch({"metadata": {"labels": {"issuer": issuer}}})
        await ctx.patch(Certificate, patch, name=certificate.metadata.name, namespace=certificate.metadata.namespace)
