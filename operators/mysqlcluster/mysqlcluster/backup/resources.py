"""The Kubernetes objects of an archiver. Pure functions."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from steersman import LabelSelector, ObjectMeta, Quantity
from steersman.k8s import (
    ConfigMap,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    EmptyDirVolumeSource,
    HTTPGetAction,
    KeyToPath,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PodSpec,
    PodTemplateSpec,
    Probe,
    SecretVolumeSource,
    Service,
    ServicePort,
    ServiceSpec,
    StatefulSet,
    StatefulSetSpec,
    Volume,
    VolumeMount,
    VolumeResourceRequirements,
)

from mysqlcluster import names, pod_security
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import BackupTarget, PvcTarget
from mysqlcluster.credentials import FORMER_TOKEN, NEXT_TOKEN, TOKEN
from mysqlcluster.desired import Desired
from mysqlcluster.settings_text import settings_text

__all__ = ["Place", "claim", "claim_name", "config_map", "service", "stateful_set"]

LABEL = "mysqlcluster_archiver"
SETTINGS = "/etc/mysqlcluster/archiver"
SECRETS = "/etc/mysqlcluster/secrets"
TLS = "/etc/mysqlcluster/tls"
SCRATCH = "/scratch"


class Place(NamedTuple):
    """The location of the archive of a cluster."""

    target: BackupTarget
    location: str
    encryption_secret: str = ""


def claim_name(cluster: str, target: PvcTarget) -> str:
    """Return the name of the PersistentVolumeClaim of a target."""
    return target.claim_name or f"{cluster}-backups"


def claim(want: Desired, target: PvcTarget) -> PersistentVolumeClaim:
    """Return the default claim of a target; it has no owner reference, so that backups outlive the cluster."""
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=claim_name(want.key.name, target), namespace=want.key.namespace),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            storage_class_name=target.class_name or None,
            resources=VolumeResourceRequirements(requests={"storage": Quantity(target.size)}),
        ),
    )


def _labels(want: Desired) -> dict[str, str]:
    return {"app": "mysqlcluster-archiver", LABEL: want.key.name}


def _metadata(want: Desired) -> ObjectMeta:
    return ObjectMeta(name=names.archiver(want.key.name), namespace=want.key.namespace, labels=_labels(want))


def _archive(name: str, place: Place) -> dict[str, Any]:
    settings: dict[str, Any] = {"location": place.location}
    if place.encryption_secret:
        settings["keyDirectory"] = f"/{name}/key"
    if place.target.s3 is not None:
        s3 = place.target.s3
        settings["s3"] = {
            "bucket": s3.bucket,
            "endpoint": s3.endpoint,
            "prefix": s3.prefix,
            "region": s3.region,
            "credentialsDirectory": f"/{name}/credentials",
        }
    else:
        settings["directory"] = f"/{name}/volume"
    return settings


def config_map(want: Desired, archive: Place | None, source: Place | None) -> ConfigMap:
    """Return the ConfigMap with the settings of the archiver."""
    settings = {
        "cluster": want.key.name,
        "flavor": want.flavor,
        "scratchDirectory": SCRATCH,
        "secretsDirectory": SECRETS,
        "tlsDirectory": TLS,
        "address": "0.0.0.0",
        "port": names.ARCHIVER_PORT,
        "peerUrl": f"https://{{member}}{names.domain(want.key)}:{names.AGENT_PORT}",
        "archive": _archive("archive", archive) if archive else None,
        "source": _archive("source", source) if source else None,
    }
    return ConfigMap(metadata=_metadata(want), data={"archiver.json": settings_text(settings)})


def service(want: Desired) -> Service:
    """Return the Service of the archiver."""
    port = ServicePort(name="archiver", port=names.ARCHIVER_PORT, target_port="archiver", protocol="TCP")
    return Service(metadata=_metadata(want), spec=ServiceSpec(selector=_labels(want), ports=(port,)))


def stateful_set(want: Desired, archive: Place | None, source: Place | None) -> StatefulSet:
    """Return the StatefulSet, which ensures that at most one Pod writes to an archive."""
    labels = _labels(want)
    template = PodTemplateSpec(
        # A change of the settings must replace the Pod.
        metadata=ObjectMeta(labels=labels, annotations={"mysqlcluster/settings": _digest(want, archive, source)}),
        spec=_pod(want, archive, source),
    )
    return StatefulSet(
        metadata=_metadata(want),
        spec=StatefulSetSpec(
            replicas=1,
            service_name=names.archiver(want.key.name),
            selector=LabelSelector(match_labels=labels),
            template=template,
        ),
    )


def _digest(want: Desired, archive: Place | None, source: Place | None) -> str:
    return hashlib.sha256(config_map(want, archive, source).data["archiver.json"].encode()).hexdigest()[:16]


def _pod(want: Desired, archive: Place | None, source: Place | None) -> PodSpec:
    volumes = [
        Volume(name="settings", config_map=ConfigMapVolumeSource(name=names.archiver(want.key.name))),
        Volume(
            name="secrets",
            secret=SecretVolumeSource(
                secret_name=want.secret,
                items=tuple(KeyToPath(key=key, path=key) for key in (TOKEN, NEXT_TOKEN, FORMER_TOKEN)),
                optional=True,  # a Secret has the other keys only during a rotation
            ),
        ),
        Volume(name="tls", secret=SecretVolumeSource(secret_name=names.tls_name(want.key.name))),
        Volume(name="scratch", empty_dir=EmptyDirVolumeSource()),
        pod_security.TEMPORARY,
    ]
    mounts = [
        VolumeMount(name="settings", mount_path=SETTINGS, read_only=True),
        VolumeMount(name="secrets", mount_path=SECRETS, read_only=True),
        VolumeMount(name="tls", mount_path=TLS, read_only=True),
        VolumeMount(name="scratch", mount_path=SCRATCH),
        pod_security.TEMPORARY_MOUNT,
    ]
    for name, place, read_only in (("archive", archive, False), ("source", source, True)):
        if place is not None:
            _mount(want, name, place, read_only, volumes, mounts)
    probe = Probe(
        http_get=HTTPGetAction(path="/healthz", port="archiver", scheme="HTTPS"), period_seconds=5, timeout_seconds=3
    )
    container = Container(
        name="archiver",
        image=want.image,
        command=("python3", "-m", "mysqlcluster.backup.archiver", f"{SETTINGS}/archiver.json"),
        security_context=pod_security.CONTAINER,
        ports=(ContainerPort(name="archiver", container_port=names.ARCHIVER_PORT),),
        readiness_probe=probe,
        volume_mounts=tuple(mounts),
    )
    return PodSpec(
        containers=(container,),
        volumes=tuple(volumes),
        termination_grace_period_seconds=10,
        automount_service_account_token=False,
        enable_service_links=False,
        security_context=pod_security.POD,
    )


def _mount(
    want: Desired, name: str, place: Place, read_only: bool, volumes: list[Volume], mounts: list[VolumeMount]
) -> None:
    if place.target.s3 is not None:
        secret = SecretVolumeSource(secret_name=place.target.s3.credentials_secret)
        volumes.append(Volume(name=f"{name}-credentials", secret=secret))
        mounts.append(VolumeMount(name=f"{name}-credentials", mount_path=f"/{name}/credentials", read_only=True))
    elif place.target.pvc is not None:
        found = PersistentVolumeClaimVolumeSource(claim_name=claim_name(want.key.name, place.target.pvc))
        volumes.append(Volume(name=f"{name}-volume", persistent_volume_claim=found))
        mounts.append(VolumeMount(name=f"{name}-volume", mount_path=f"/{name}/volume", read_only=read_only))
    if place.encryption_secret:
        volumes.append(Volume(name=f"{name}-key", secret=SecretVolumeSource(secret_name=place.encryption_secret)))
        mounts.append(VolumeMount(name=f"{name}-key", mount_path=f"/{name}/key", read_only=True))
