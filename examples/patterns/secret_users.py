"""Index: an annotation of each Secret names the Pods that mount it.

The index answers "which Pods use this Secret?" without a look at every Pod. `metadata_of(Secret)` caches no values of
Secrets.
"""

from steersman import Context, Key, MergePatch, Operator, PartialObjectMetadata, Watch, metadata_of
from steersman.k8s import Pod, Secret

USED_BY = "patterns.example.com/used-by"


def secrets_of(pod: Pod) -> list[str]:
    return [v.secret.secret_name for v in pod.spec.volumes if v.secret and v.secret.secret_name]


def keys_of(pod: Pod) -> list[Key]:
    return [Key(pod.metadata.namespace, name) for name in secrets_of(pod)]


operator = Operator("secret-users")
operator.index("secret", Pod, secrets_of)
operator.permit("patch", Secret)


@operator.controller(kind=metadata_of(Secret), watches=[Watch(Pod, to=keys_of)])
async def reconcile(secret: PartialObjectMetadata, ctx: Context) -> None:
    pods = ctx.list(Pod, index=("secret", secret.metadata.name))
    used_by = ",".join(sorted(pod.metadata.name for pod in pods)) or None
    if secret.metadata.annotations.get(USED_BY) != used_by:
        patch = MergePatch({"metadata": {"annotations": {USED_BY: used_by}}})
        await ctx.patch(Secret, patch, name=secret.metadata.name, namespace=secret.metadata.namespace)
