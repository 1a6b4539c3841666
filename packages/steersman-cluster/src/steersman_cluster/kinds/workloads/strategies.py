"""The strategies of Pods and of the kinds that make them."""

from __future__ import annotations

from collections.abc import Mapping

from steersman_cluster.kinds.pods.pod import Pod
from steersman_cluster.kinds.workloads.cronjobs import CronJob
from steersman_cluster.kinds.workloads.daemonsets import DaemonSet
from steersman_cluster.kinds.workloads.deployments import Deployment, ReplicaSet
from steersman_cluster.kinds.workloads.jobs import Job
from steersman_cluster.kinds.workloads.replicationcontrollers import PodTemplate, ReplicationController
from steersman_cluster.kinds.workloads.statefulsets import ControllerRevision, StatefulSet
from steersman_cluster.strategy import Strategy

__all__ = ["STRATEGIES"]

STRATEGIES: Mapping[tuple[str, str, str], Strategy] = {
    ("", "v1", "Pod"): Pod(),
    ("", "v1", "PodTemplate"): PodTemplate(),
    ("", "v1", "ReplicationController"): ReplicationController(),
    ("apps", "v1", "ControllerRevision"): ControllerRevision(),
    ("apps", "v1", "DaemonSet"): DaemonSet(),
    ("apps", "v1", "Deployment"): Deployment(),
    ("apps", "v1", "ReplicaSet"): ReplicaSet(),
    ("apps", "v1", "StatefulSet"): StatefulSet(),
    ("batch", "v1", "CronJob"): CronJob(),
    ("batch", "v1", "Job"): Job(),
}
