"""The stage Finalize: deletes the directories on nodes of members that stored their data there. Pure functions.

Kubernetes deletes claims of a StatefulSet, but no directory of a node. A suspended Job for each member stores the node
of the member while its Pod still exists. The Job runs after the Pod has ended, and deletes the directory of the member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steersman import ObjectMeta
from steersman.k8s import (
    Container,
    HostPathVolumeSource,
    Job,
    JobSpec,
    Pod,
    PodSpec,
    PodTemplateSpec,
    StatefulSet,
    Volume,
    VolumeMount,
)
from steersman.models import is_true

from rocketmq.api.v1.pods import StoredFields

__all__ = ["FINALIZER", "Cleanup", "cleanup", "job", "must_delete"]

FINALIZER = "rocketmq.daocloud.io/directories"
"""The finalizer of objects whose directories are deleted with them."""
PARENT = "/host"
"""The mount path of the parent of the directories."""
MAX_RETRIES = 6
KEPT_SECONDS = 3600
"""Time after which Kubernetes deletes a finished Job that the operator did not delete."""


def must_delete(fields: StoredFields) -> bool:
    """Return whether the directories on nodes are deleted with the object."""
    return fields.storage_mode == "HostPath" and fields.storage_reclaim_policy == "Delete"


def job(fields: StoredFields, image: str, pod: str, node: str, metadata: ObjectMeta) -> Job:
    """Return the suspended Job that deletes the directory of a Pod on its node.

    Args:
        fields: the spec of the object.
        image: an image with a shell, which is already on the node.
        pod: the name of the Pod, which is also the name of its directory.
        node: the name of the node.
        metadata: the namespace and the labels of the Job.
    """
    container = Container(
        name="cleanup",
        image=image,
        image_pull_policy=fields.image_pull_policy,
        command=("sh", "-c", f"rm -rf {PARENT}/{pod}"),
        security_context=fields.container_security_context,
        volume_mounts=(VolumeMount(name="data", mount_path=PARENT),),
    )
    template = PodSpec(
        containers=(container,),
        restart_policy="Never",
        node_name=node,
        tolerations=fields.tolerations,
        image_pull_secrets=fields.image_pull_secrets,
        service_account_name=fields.service_account_name or None,
        security_context=fields.security_context,
        volumes=(Volume(name="data", host_path=HostPathVolumeSource(path=fields.host_path, type="DirectoryOrCreate")),),
    )
    labels: Mapping[str, str] = metadata.labels
    return Job(
        metadata=ObjectMeta(name=f"{pod}-cleanup", namespace=metadata.namespace, labels=labels),
        spec=JobSpec(
            suspend=True,
            backoff_limit=MAX_RETRIES,
            ttl_seconds_after_finished=KEPT_SECONDS,
            template=PodTemplateSpec(spec=template),
        ),
    )


@dataclass(frozen=True)
class Cleanup:
    """The next steps of Finalize. Without a step and without `waiting`, all directories are deleted."""

    suspend: tuple[Pod, ...] = ()
    """Pods for which a suspended Job is created."""
    stop: tuple[StatefulSet, ...] = ()
    """StatefulSets to delete."""
    run: tuple[Job, ...] = ()
    """Jobs to resume, because the Pod has ended."""
    remove: tuple[Job, ...] = ()
    """Jobs that have finished successfully."""
    waiting: str = ""
    failed: bool = False
    """Whether `waiting` names failed Jobs, which need a decision of the user."""

    @property
    def done(self) -> bool:
        """Whether all directories are deleted."""
        return not (self.suspend or self.stop or self.run or self.remove or self.waiting)


def cleanup(sets: Iterable[StatefulSet], pods: Iterable[Pod], jobs: Iterable[Job]) -> Cleanup:
    """Return the next steps.

    Args:
        sets: the StatefulSets of the object.
        pods: the Pods of its members.
        jobs: the Jobs that this stage has created.
    """
    members = {pod.metadata.name: pod for pod in pods if pod.spec.node_name}
    known = {each.metadata.name.removesuffix("-cleanup"): each for each in jobs}
    missing = tuple(pod for name, pod in sorted(members.items()) if name not in known)
    if missing:
        return Cleanup(suspend=missing)
    present = tuple(sets)
    if present:
        return Cleanup(stop=present)
    if members:
        return Cleanup(waiting=f"Pods have not ended: {', '.join(sorted(members))}")
    finished = tuple(each for each in known.values() if is_true(each.status.conditions, "Complete"))
    suspended = tuple(each for each in known.values() if each.spec.suspend)
    failed = sorted(each.metadata.name for each in known.values() if is_true(each.status.conditions, "Failed"))
    if suspended or finished:
        return Cleanup(run=suspended, remove=finished)
    if failed:
        text = f"Jobs failed: {', '.join(failed)}; delete them to repeat, or set storageReclaimPolicy to Retain"
        return Cleanup(waiting=text, failed=True)
    running = sorted(each.metadata.name for each in known.values())
    return Cleanup(waiting=f"Jobs have not finished: {', '.join(running)}" if running else "")
