"""The strategies of Pods and of the kinds that make them."""

from __future__ import annotations

from collections.abc import Mapping

from steersman_cluster.kinds.cronjobs import CronJob
from steersman_cluster.kinds.daemonsets import DaemonSet
from steersman_cluster.kinds.deployments import Deployment, ReplicaSet
from steersman_cluster.kinds.jobs import Job
from steersman_cluster.kinds.pods import Pod
from steersman_cluster.kinds.replicationcontrollers import PodTemplate, ReplicationController
from steersman_cluster.kinds.statefulsets import ControllerRevision, StatefulSet
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
