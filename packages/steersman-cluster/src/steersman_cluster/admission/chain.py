"""The admission chain: the plug-ins in the API server's order, and the webhooks that match a write.

Most writes match no webhook: for them everything is synchronous (`needs_async` is false). Otherwise mutation and
validation are awaited, and the API server reads the stored object again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steersman_cluster.admission import limits, plugins
from steersman_cluster.admission.lookups import Lookups
from steersman_cluster.admission.matching import Equivalents
from steersman_cluster.admission.mutations import MutatingPolicies, PolicyRound, run_without_waiting
from steersman_cluster.admission.pod_security import check_namespace, check_pod, check_template
from steersman_cluster.admission.policies import Policies
from steersman_cluster.admission.quotas import check_quotas
from steersman_cluster.admission.serviceaccount import default_service_account, require_service_account
from steersman_cluster.admission.webhook_calls import WebhookCaller
from steersman_cluster.admission.webhooks import MutatingRound, WebhookAdmission
from steersman_cluster.admission.write import CREATE, UPDATE, Write
from steersman_cluster.auth.rbac import Authorizer
from steersman_cluster.strategy import Reader

__all__ = ["Admission"]

_Plugin = Callable[[Write, Lookups], None]
_Table = dict[tuple[str, str, str], tuple[_Plugin, ...]]

_MUTATORS: _Table = {
    (CREATE, "", "pods"): (
        limits.default_limits,
        default_service_account,
        plugins.pod_priority,
        plugins.default_tolerations,
        plugins.runtime_class,
    ),
    (UPDATE, "", "pods"): (plugins.pod_priority, plugins.default_tolerations),
    (CREATE, "", "nodes"): (plugins.not_ready_taint,),
    (CREATE, "", "persistentvolumeclaims"): (plugins.default_storage_class, plugins.in_use_protection),
    (CREATE, "", "persistentvolumes"): (plugins.in_use_protection,),
    (CREATE, "storage.k8s.io", "volumeattributesclasses"): (plugins.in_use_protection,),
    (CREATE, "networking.k8s.io", "ingresses"): (plugins.default_ingress_class,),
}
_WITH_TEMPLATES = (
    ("", "podtemplates"), ("", "replicationcontrollers"), ("apps", "daemonsets"), ("apps", "deployments"),
    ("apps", "replicasets"), ("apps", "statefulsets"), ("batch", "cronjobs"), ("batch", "jobs"),
)  # fmt: skip
_VALIDATORS: _Table = {
    (CREATE, "", "pods"): (limits.check_limits, require_service_account, check_pod),
    (UPDATE, "", "pods"): (check_pod,),
    (CREATE, "", "namespaces"): (check_namespace,),
    (UPDATE, "", "namespaces"): (check_namespace,),
    (CREATE, "", "persistentvolumeclaims"): (limits.check_limits,),
    (UPDATE, "", "persistentvolumeclaims"): (limits.check_limits,),
    (CREATE, "scheduling.k8s.io", "priorityclasses"): (plugins.single_default_priority,),
    (UPDATE, "scheduling.k8s.io", "priorityclasses"): (plugins.single_default_priority,),
}
_VALIDATORS.update({(when, *kind): (check_template,) for when in (CREATE, UPDATE) for kind in _WITH_TEMPLATES})


class Admission:
    """The admission chain of one API server.

    Tell it of every committed change by `changed`. `taint_nodes` taints new Nodes until a node controller finds them
    ready; `service_accounts` demands that a Pod's ServiceAccount exists. `services` says where the Services of
    webhooks are, where no Endpoints do: `(namespace, name[, port])` to `(host, port)`.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        authorizer: Authorizer | None = None,
        equivalents: Equivalents | None = None,
        services: Mapping[tuple[str, str] | tuple[str, str, int], tuple[str, int]] | None = None,
        taint_nodes: bool = True,
        service_accounts: bool = True,
    ) -> None:
        self.lookups = Lookups(reader)
        self.caller = WebhookCaller(reader, services)
        self.webhooks = WebhookAdmission(
            reader, self.lookups, self.caller, equivalents=equivalents, authorizer=authorizer
        )
        self.policies = Policies(reader, self.lookups, equivalents, authorizer)
        self.mutations = MutatingPolicies(reader, self.lookups, equivalents, authorizer)
        off: set[_Plugin] = set()
        if not taint_nodes:
            off.add(plugins.not_ready_taint)
        if not service_accounts:
            off |= {default_service_account, require_service_account}
        self._mutators = _without(_MUTATORS, off)
        self._validators = _without(_VALIDATORS, off)

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self.caller.close()

    def changed(self, group: str, resource: str, namespace: str, name: str) -> None:
        """An object was written or deleted."""
        if group == "admissionregistration.k8s.io":
            self.webhooks.changed(resource)
            self.policies.changed(resource)
            self.mutations.changed(resource)
        else:
            self.lookups.changed(resource, namespace, name)

    def needs_async(self, write: Write) -> bool:
        """Return whether a webhook may match this write, so that `mutate` and `validate` must be awaited."""
        hooks = self.webhooks
        return (
            hooks.concerns(write, hooks.mutating)
            or hooks.concerns(write, hooks.validating)
            or self.policies.needs_webhook(write)
            or self.mutations.needs_webhook(write)
        )

    def mutate_now(self, write: Write) -> None:
        """The built-in plug-ins and policies that change objects (and those that refuse early). Raises `APIError`."""
        self._run_mutating_plugins(write)
        if not self.mutations.any:
            return
        state = PolicyRound()
        run_without_waiting(self.mutations.apply(write, state, again=False))
        if state.changed:
            self._run_mutating_plugins(write)
            run_without_waiting(self.mutations.apply(write, state, again=True))

    def _run_mutating_plugins(self, write: Write) -> None:
        plugins.namespace_lifecycle(write, self.lookups)
        for plugin in self._mutators.get((write.operation, write.group, write.resource), ()):
            if not write.subresource:
                plugin(write, self.lookups)

    def validate_now(self, write: Write) -> None:
        """The built-in plug-ins, the policies and the quotas, which validate the complete object. Raises `APIError`."""
        self._run_validating_plugins(write)
        check_quotas(write, self.lookups)

    def _run_validating_plugins(self, write: Write) -> None:
        for plugin in self._validators.get((write.operation, write.group, write.resource), ()):
            if not write.subresource or (plugin is check_pod and write.subresource == "ephemeralcontainers"):
                plugin(write, self.lookups)
        self.policies.check(write)

    async def mutate(self, write: Write) -> None:
        """Plug-ins and mutating webhooks, a second time where a webhook changed something. Raises `APIError`."""
        state, policies = MutatingRound(), PolicyRound()
        self._run_mutating_plugins(write)
        await self.mutations.apply(write, policies, again=False)
        await self.webhooks.mutate(write, state, again=False)
        if state.changed or policies.changed:
            self._run_mutating_plugins(write)
            await self.mutations.apply(write, policies, again=True)
            await self.webhooks.mutate(write, state, again=True)

    async def validate(self, write: Write) -> None:
        """Plug-ins and validating webhooks. Raises `APIError`."""
        await self.policies.prepare(write)
        self._run_validating_plugins(write)
        await self.webhooks.validate(write)
        check_quotas(write, self.lookups)


def _without(table: _Table, off: set[_Plugin]) -> _Table:
    return {key: tuple(plugin for plugin in found if plugin not in off) for key, found in table.items()}
