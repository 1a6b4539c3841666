"""The ServiceAccount plug-in: each Pod gets a ServiceAccount, whose token is mounted unless the Pod opts out.

Follows the API server's `plugin/pkg/admission/serviceaccount`.
"""

from __future__ import annotations

from collections.abc import Iterator

from steersman_cluster.admission.lookups import Lookups
from steersman_cluster.admission.write import Write
from steersman_cluster.json_access import get_object, get_objects
from steersman_cluster.objects import Object, annotations_of, name_of

__all__ = ["default_service_account", "require_service_account"]

_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME = "kube-api-access-"
_MIRROR = "kubernetes.io/config.mirror"
_ENFORCED = "kubernetes.io/enforce-mountable-secrets"


def default_service_account(write: Write, lookups: Lookups) -> None:
    """Give a new Pod the account `default` where it names none, its token's volume, and its pull secrets."""
    if write.obj is None:
        return
    if _MIRROR in annotations_of(write.obj):
        _check_mirror(write, get_object(write.obj, "spec"))
        return
    spec = write.obj.setdefault("spec", {})
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    # The old name of the field is kept in step, as conversion does on the real server.
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = _account(write, lookups, name)
    wanted = spec.get("automountServiceAccountToken")
    if wanted is None:
        wanted = account.get("automountServiceAccountToken")
    if wanted is not False:
        _mount(spec, write)
    if not spec.get("imagePullSecrets") and (secrets := get_objects(account, "imagePullSecrets")):
        spec["imagePullSecrets"] = [{"name": secret.get("name") or ""} for secret in secrets]
    _check_secrets(write, account, spec)


def require_service_account(write: Write, lookups: Lookups) -> None:
    """Refuse a new Pod if its ServiceAccount, which webhooks may have changed, does not exist."""
    if write.obj is None:
        return
    spec = get_object(write.obj, "spec")
    if _MIRROR in annotations_of(write.obj):
        _check_mirror(write, spec)
        return
    name = spec.get("serviceAccountName")
    if not name:
        raise write.forbidden(f"no service account specified for pod {write.namespace}/{name_of(write.obj)}")
    _check_secrets(write, _account(write, lookups, name), spec)


def _account(write: Write, lookups: Lookups, name: str) -> Object:
    account = lookups.service_account(write.namespace, name)
    if account is None:
        why = f'error looking up service account {write.namespace}/{name}: serviceaccount "{name}" not found'
        raise write.forbidden(why)
    return account


def _mount(spec: Object, write: Write) -> None:
    volume = next(
        (item["name"] for item in get_objects(spec, "volumes") if item.get("name", "").startswith(_VOLUME)), ""
    )
    name = volume or _VOLUME + write.context.random(5)
    mounted = False
    for container in (*get_objects(spec, "initContainers"), *get_objects(spec, "containers")):
        mounts = get_objects(container, "volumeMounts")
        if any(mount.get("mountPath") == _MOUNT_PATH for mount in mounts):
            continue
        container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}]
        mounted = True
    if mounted and not volume:
        spec["volumes"] = [*get_objects(spec, "volumes"), {"name": name, "projected": _projection()}]


def _projection() -> Object:
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
        "defaultMode": 420,
    }


def _check_mirror(write: Write, spec: Object) -> None:
    if spec.get("serviceAccountName"):
        raise write.forbidden("a mirror pod may not reference service accounts")
    if any(True for _ in _secret_references(spec)):
        raise write.forbidden("a mirror pod may not reference secrets")
    for volume in get_objects(spec, "volumes"):
        if any("serviceAccountToken" in source for source in get_objects(get_object(volume, "projected"), "sources")):
            raise write.forbidden("a mirror pod may not use ServiceAccountToken volume projections")


def _secret_references(spec: Object) -> Iterator[tuple[str, str]]:
    """Return the Secrets that a Pod refers to, with the texts that refusals use."""
    for volume in get_objects(spec, "volumes"):
        if secret := get_object(volume, "secret").get("secretName"):
            yield secret, f'volume with secret.secretName="{secret}"'
    for kind, field in (("init container", "initContainers"), ("container", "containers")):
        for container in get_objects(spec, field):
            name = container.get("name")
            for env in get_objects(container, "env"):
                if secret := get_object(get_object(env, "valueFrom"), "secretKeyRef").get("name"):
                    where = f"{kind} {name} with envVar {env.get('name')}"
                    yield secret, f'{where} referencing secret.secretName="{secret}"'
            for source in get_objects(container, "envFrom"):
                if secret := get_object(source, "secretRef").get("name"):
                    yield secret, f'{kind} {name} with envFrom referencing secret.secretName="{secret}"'


def _check_secrets(write: Write, account: Object, spec: Object) -> None:
    if annotations_of(account).get(_ENFORCED, "").lower() not in ("true", "1", "t"):
        return
    name = name_of(account)
    mountable = {secret.get("name") for secret in get_objects(account, "secrets")}
    for secret, where in _secret_references(spec):
        if secret not in mountable:
            raise write.forbidden(
                f"{where} is not allowed because service account {name} does not reference that secret"
            )
    pullable = {secret.get("name") for secret in get_objects(account, "imagePullSecrets")}
    for index, secret in enumerate(get_objects(spec, "imagePullSecrets")):
        if secret.get("name") not in pullable:
            raise write.forbidden(
                f'imagePullSecrets[{index}].name="{secret.get("name")}" is not allowed because service account'
                f" {name} does not reference that imagePullSecret"
            )
