"""The ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` of each namespace.

Also fills in and deletes legacy token Secrets of ServiceAccounts.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable

from steersman.client import AlreadyExists, Forbidden, NotFound
from steersman.k8s import ConfigMap, Namespace, Secret, ServiceAccount
from steersman.models import Key, MergePatch, ObjectMeta
from steersman.operator import Context, Operator, Watch
from steersman_cluster.controllers.terminating_namespaces import is_namespace_terminating

__all__ = ["register", "token_namespace"]

ROOT_CA = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"
TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a type's name


def _named(name: str) -> Callable[[ConfigMap | ServiceAccount], bool]:
    return lambda obj: obj.metadata.name == name


def _to_namespace(obj: ConfigMap | ServiceAccount) -> Key:
    return Key("", obj.metadata.namespace)


def token_namespace(secret: Secret) -> str | None:
    """The index function `account`: token Secrets by namespace."""
    return secret.metadata.namespace if secret.type == TOKEN else None


def register(
    operator: Operator, *, ca_bundle: str = "", sign: Callable[[ServiceAccount, Secret], str] | None = None
) -> None:
    """Declare the controllers.

    `ca_bundle` is the PEM text to publish; nothing is published without it. `sign` makes the token of a legacy token
    Secret; those stay empty without it.
    """

    async def root_ca(namespace: Namespace, ctx: Context) -> None:
        known = ctx.get(ConfigMap, ROOT_CA, namespace=namespace.metadata.name)
        wanted = {"ca.crt": ca_bundle}
        metadata = ObjectMeta(
            name=ROOT_CA,
            namespace=namespace.metadata.name,
            annotations={"kubernetes.io/description": _DESCRIPTION},
        )
        if known is None:
            await _create(ctx, ConfigMap(metadata=metadata, data=wanted))
        elif known.data != wanted:
            await ctx.patch(known, MergePatch({"metadata": {"uid": known.metadata.uid}, "data": wanted}))

    operator.controller(
        name="serviceaccount",
        reads=[ServiceAccount],
        watches=[Watch(ServiceAccount, to=_to_namespace, where=_named("default"))],
    )(default_account)
    if ca_bundle:
        operator.controller(
            name="root-ca",
            reads=[ConfigMap],
            watches=[Watch(ConfigMap, to=_to_namespace, where=_named(ROOT_CA))],
        )(root_ca)

    async def token_secret(secret: Secret, ctx: Context) -> None:
        if not await _belongs(secret, ctx):
            await ctx.delete(secret)
        elif sign is not None and (account := ctx.get(ServiceAccount, _account_of(secret))) is not None:
            await _fill(secret, account, ca_bundle, sign, ctx)

    operator.controller(name="token", reads=[Secret], watches=[Watch(ServiceAccount, to=_to_tokens)], where=_is_token)(
        token_secret
    )


async def default_account(namespace: Namespace, ctx: Context) -> None:
    """Create the ServiceAccount `default` of a namespace that lives."""
    if ctx.get(ServiceAccount, "default", namespace=namespace.metadata.name) is None:
        await _create(ctx, ServiceAccount(metadata=ObjectMeta(name="default", namespace=namespace.metadata.name)))


async def _create(ctx: Context, obj: ConfigMap | ServiceAccount) -> None:
    try:
        await ctx.create(obj, owned=False)
    except (AlreadyExists, NotFound):
        return
    except Forbidden as problem:
        if not is_namespace_terminating(problem):
            raise


def _is_token(secret: Secret) -> bool:
    return secret.type == TOKEN


def _to_tokens(account: ServiceAccount, ctx: Context) -> Iterable[Key]:
    namespace = account.metadata.namespace
    tokens = ctx.list(Secret, index=("account", namespace), namespace=namespace)
    return [Key(namespace, token.metadata.name) for token in tokens if _account_of(token) == account.metadata.name]


def _account_of(secret: Secret) -> str:
    return secret.metadata.annotations.get(ACCOUNT_NAME, "")


async def _belongs(secret: Secret, ctx: Context) -> bool:
    """Return whether the ServiceAccount of a token Secret exists with the same uid."""
    name, uid = _account_of(secret), secret.metadata.annotations.get(ACCOUNT_UID, "")
    account = ctx.get(ServiceAccount, name) or await ctx.fetch(ServiceAccount, name) if name else None
    return account is not None and uid in ("", account.metadata.uid)


async def _fill(
    secret: Secret,
    account: ServiceAccount,
    ca_bundle: str,
    sign: Callable[[ServiceAccount, Secret], str],
    ctx: Context,
) -> None:
    """Complete a token Secret: uid, CA certificate, namespace and token."""
    if secret.metadata.annotations.get(ACCOUNT_UID) and "token" in secret.data:
        return
    values = {"ca.crt": ca_bundle, "namespace": secret.metadata.namespace, "token": sign(account, secret)}
    data = {key: b64encode(value.encode()).decode() for key, value in values.items() if value}
    metadata = {"uid": secret.metadata.uid, "annotations": {ACCOUNT_UID: account.metadata.uid}}
    await ctx.patch(secret, MergePatch({"metadata": metadata, "data": data}))
