"""The strategies of Pods and of the kinds that make them."""

from __future__ import annotations

from collections.abc import Mapping

from steersman.devcluster.kinds.cronjobs import CronJob
from steersman.devcluster.kinds.daemonsets import DaemonSet
from steersman.devcluster.kinds.deployments import Deployment, ReplicaSet
from steersman.devcluster.kinds.jobs import Job
from steersman.devcluster.kinds.pods import Pod
from steersman.devcluster.kinds.replicationcontrollers import PodTemplate, ReplicationController
from steersman.devcluster.kinds.statefulsets import ControllerRevision, StatefulSet
from steersman.devcluster.strategy import Strategy

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
