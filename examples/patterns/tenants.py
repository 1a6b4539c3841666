"""Multi-tenancy by namespaces: a Tenant gets a namespace with a quota and a role for its group of users.

A cluster-scoped object can own namespaced ones, so the garbage collector deletes everything with the Tenant.
"""

from steersman import Context, Model, ObjectMeta, Operator, Quantity, Resource
from steersman.k8s import ClusterRole, Namespace, ResourceQuota, ResourceQuotaSpec, RoleBinding, RoleRef, Subject


class TenantSpec(Model):
    group: str
    """The group of users with the permission to edit objects in the namespace."""
    pods: int = 10
    """The highest number of Pods."""


class Tenant(Resource, group="patterns.example.com", version="v1", namespaced=False):
    """A team with a namespace of its own."""

    spec: TenantSpec


operator = Operator("tenants")
operator.permit("bind", ClusterRole, names=["edit"])  # an operator may not grant a role whose rights it lacks


@operator.controller(owns=[Namespace, ResourceQuota, RoleBinding])
async def reconcile(tenant: Tenant, ctx: Context) -> None:
    name = f"tenant-{tenant.metadata.name}"
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    await ctx.apply(Namespace(metadata=ObjectMeta(name=name, labels=restricted)))
    quota = ResourceQuotaSpec(hard={"pods": Quantity(str(tenant.spec.pods))})
    await ctx.apply(ResourceQuota(metadata=ObjectMeta(name="pods", namespace=name), spec=quota))
    await ctx.apply(
        RoleBinding(
            metadata=ObjectMeta(name="edit", namespace=name),
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="edit"),
            subjects=(Subject(api_group="rbac.authorization.k8s.io", kind="Group", name=tenant.spec.group),),
        )
    )
