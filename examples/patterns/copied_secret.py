"""Watch across namespaces: a Secret is copied to the namespaces that its annotation names.

An owner reference cannot cross namespaces, so a finalizer deletes the copies, and a label leads from a copy to its
source.
"""

from steersman import ALL_NAMESPACES, Context, Key, ObjectMeta, Operator, Watch
from steersman.k8s import Secret

COPY_TO = "patterns.example.com/copy-to"
SOURCE = "patterns.example.com/copied-from"

operator = Operator("copied-secrets")
operator.permit("create patch delete", Secret)


def source_of(copy: Secret) -> Key | None:
    """The key of the source: a copy has the name of its source, and a label with the namespace."""
    namespace = copy.metadata.labels.get(SOURCE)
    return Key(namespace, copy.metadata.name) if namespace else None


@operator.controller(
    where=lambda secret: COPY_TO in secret.metadata.annotations,
    watches=[Watch(Secret, to=source_of)],
)
async def reconcile(secret: Secret, ctx: Context) -> None:
    targets = [name for name in secret.metadata.annotations.get(COPY_TO, "").split(",") if name]
    for namespace in targets:
        metadata = ObjectMeta(
            name=secret.metadata.name, namespace=namespace, labels={SOURCE: secret.metadata.namespace}
        )
        await ctx.apply(Secret(metadata=metadata, data=secret.data, type=secret.type), owned=False)
    await delete_copies(secret, ctx, except_in=targets)


@operator.finalizer("patterns.example.com/copies")
async def delete_all(secret: Secret, ctx: Context) -> None:
    await delete_copies(secret, ctx, except_in=[])


async def delete_copies(secret: Secret, ctx: Context, *, except_in: list[str]) -> None:
    """Delete the copies of a Secret in all other namespaces."""
    copies = ctx.list(Secret, namespace=ALL_NAMESPACES, labels={SOURCE: secret.metadata.namespace})
    for copy in copies:
        if copy.metadata.name == secret.metadata.name and copy.metadata.namespace not in except_in:
            await ctx.delete(copy)
