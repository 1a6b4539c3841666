"""The security settings of all Pods of a cluster: those that the Pod Security level `restricted` requires."""

from __future__ import annotations

from typing import Final

from steersman.k8s import (
    Capabilities,
    EmptyDirVolumeSource,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    Volume,
    VolumeMount,
)

__all__ = ["CONTAINER", "POD", "TEMPORARY", "TEMPORARY_MOUNT", "USER"]

USER: Final = 65532
"""The user and the group of all processes, and the group of the files in their volumes."""
POD: Final = PodSecurityContext(
    run_as_non_root=True,
    run_as_user=USER,
    run_as_group=USER,
    fs_group=USER,
    # Without this value the kubelet changes the group of every file each time that a Pod starts.
    fs_group_change_policy="OnRootMismatch",
    seccomp_profile=SeccompProfile(type="RuntimeDefault"),
)
CONTAINER: Final = SecurityContext(
    allow_privilege_escalation=False,
    capabilities=Capabilities(drop=("ALL",)),
    read_only_root_filesystem=True,
)
TEMPORARY: Final = Volume(name="tmp", empty_dir=EmptyDirVolumeSource())
"""The volume for temporary files, because the root file system is read-only."""
TEMPORARY_MOUNT: Final = VolumeMount(name="tmp", mount_path="/tmp")
