"""The common fields of kinds with Pods, with the names of Apache's operator."""

from collections.abc import Mapping
from typing import Annotated, Literal

from steersman import EMPTY, Ge, Le, Model
from steersman.k8s import (
    Affinity,
    EnvVar,
    LocalObjectReference,
    PersistentVolumeClaim,
    PodSecurityContext,
    ResourceRequirements,
    SecurityContext,
    Toleration,
)
from steersman.models.markers import CEL, MaxItems, MaxLength, MaxProperties, MinLength

Name = Annotated[str, MaxLength(253)]
Image = Annotated[str, MinLength(1), MaxLength(1024)]
Port = Annotated[int, Ge(1), Le(65535)]
Addresses = Annotated[tuple[Annotated[str, MinLength(3), MaxLength(261)], ...], MaxItems(64)]
"""Addresses in the form host:port."""
KEEPS_STORAGE = CEL(
    "self.storageMode == oldSelf.storageMode && self.hostPath == oldSelf.hostPath",
    message="the storage of existing data cannot change: create another object and move the data to it",
    field_path=".storageMode",
)
HOST_PATH_IS_GIVEN = CEL(
    "self.storageMode != 'HostPath' || self.hostPath != ''",
    message="storageMode HostPath needs hostPath, a directory on the node",
    field_path=".hostPath",
)
CLAIMS_ARE_GIVEN = CEL(
    "self.storageMode != 'StorageClass' || (has(self.volumeClaimTemplates) && size(self.volumeClaimTemplates) > 0)",
    message="storageMode StorageClass needs volumeClaimTemplates: add one, or choose EmptyDir, which loses its data",
    field_path=".volumeClaimTemplates",
)
STORAGE_RULES = (KEEPS_STORAGE, HOST_PATH_IS_GIVEN, CLAIMS_ARE_GIVEN)


class PodFields(Model):
    """The common fields of kinds with Pods."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the kubelet pulls the image."""
    image_pull_secrets: Annotated[tuple[LocalObjectReference, ...], MaxItems(16)] = ()
    """Secrets with credentials for the registry."""
    resources: ResourceRequirements | None = None
    """Requests and limits of the container."""
    env: Annotated[tuple[EnvVar, ...], MaxItems(128)] = ()
    """Environment variables, in addition to those of the operator."""
    host_network: bool = False
    """Whether the Pods use the network of the node. The ports must be free there."""
    dns_policy: Literal["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"] = "ClusterFirst"
    """DNS policy of the Pods."""
    node_selector: Annotated[Mapping[str, Annotated[str, MaxLength(63)]], MaxProperties(64)] = EMPTY
    """Labels of the nodes for the Pods."""
    affinity: Affinity | None = None
    """Affinity of the Pods."""
    tolerations: Annotated[tuple[Toleration, ...], MaxItems(64)] = ()
    """Tolerations of the Pods."""
    priority_class_name: Name = ""
    """PriorityClass of the Pods."""
    service_account_name: Name = ""
    """ServiceAccount of the Pods. Default: that of the namespace."""
    security_context: PodSecurityContext | None = None
    """Security context of the Pod; by default that of the Pod Security level `restricted`, with user 65532."""
    container_security_context: SecurityContext | None = None
    """Security context of the container; by default without capabilities and with a read-only root file system."""


class StoredFields(PodFields):
    """The common fields of kinds with stored data."""

    storage_mode: Literal["StorageClass", "EmptyDir", "HostPath"] = "StorageClass"
    """The storage of the data: `StorageClass` for volumes, `EmptyDir` for data that is lost with the Pod, `HostPath` for a directory of one node."""
    host_path: Annotated[str, MaxLength(4096)] = ""
    """Directory on the node, for `HostPath`."""
    volume_claim_templates: Annotated[tuple[PersistentVolumeClaim, ...], MaxItems(8)] = ()
    """PersistentVolumeClaims of each Pod, for `StorageClass`. The first is for the data."""
    storage_reclaim_policy: Literal["Retain", "Delete"] = "Retain"
    """`Delete` deletes the claims of a member with the member, and the directories of `HostPath` with the object;
    `Retain` keeps its data."""
