"""The ConfigMonitor kind: what its users write, and what the operator remembers and reports."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from steersman import CEL, Column, Conditions, MaxLength, MinLength, MinProperties, Model, Pattern, Resource

_REFUSED = (
    "names an object of this namespace: a ConfigMonitor restarts Pods of its own namespace only, and Pods cannot mount"
    " what is elsewhere; create a ConfigMonitor beside the object"
)

Name = Annotated[
    str,
    MinLength(1),
    MaxLength(253),
    Pattern("^[a-z0-9]([-a-z0-9./]*[a-z0-9])?$"),
    CEL("!self.contains('/')", message=_REFUSED),
]
LabelValue = Annotated[str, MaxLength(63), Pattern("^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")]


class ConfigMonitorSpec(Model):
    __rules__ = (
        CEL(
            "!(has(self.configMap) && has(self.configmap))",
            message="configmap is the deprecated spelling of configMap, and both are given: give configMap only",
        ),
        CEL(
            "!(has(self.secret) && (has(self.configMap) || has(self.configmap)))",
            message="a ConfigMonitor watches one object: give configMap or secret, and make another for the other",
        ),
        CEL(
            "has(self.configMap) || has(self.configmap) || has(self.secret)",
            message="what is to be watched? Give configMap, or secret: the name of one in this namespace",
        ),
    )

    config_map: Name | None = None
    """Name of the ConfigMap to watch, in this namespace."""
    configmap: Name | None = None
    """Deprecated: write `configMap`."""
    secret: Name | None = None
    """Name of the Secret to watch, in this namespace, instead of a ConfigMap."""
    pod_selector: Annotated[Mapping[str, LabelValue], MinProperties(1)]
    """Pods that have all of these labels are restarted when the data changes."""
    strategy: Literal["delete", "rollout"] = "delete"
    """`delete` evicts every Pod, and its owner starts it anew; `rollout` has the Deployment, StatefulSet or DaemonSet
    of the Pod roll out anew, at its own pace. Pods that have no such owner are evicted."""
    force: bool = False
    """Delete Pods without asking PodDisruptionBudgets."""


class PendingPod(Model):
    name: str
    uid: str


class Restart(Model):
    """What a change of the data led to. It is written before the first Pod is touched, so that a new process goes on
    with just these Pods."""

    hash: str
    """The content that the Pods are restarted for."""
    version: str = ""
    """resourceVersion of the object in which that content was seen."""
    selector: Mapping[str, str] = {}
    """The podSelector by which the Pods were found."""
    total: int = 0
    """How many Pods ran with the older content and were this ConfigMonitor's to restart."""
    pending: tuple[PendingPod, ...] = ()
    """Those that are still to be restarted."""


class ConfigMonitorStatus(Model):
    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    source: str = ""
    """What is watched, such as `ConfigMap/flaskapp-config`."""
    observed_hash: str = ""
    """Hash of the data as last seen. Pods are restarted when the data has another one."""
    observed_version: str = ""
    """resourceVersion of the object in which that data was first seen."""
    last_restart_time: datetime | None = None
    """When a change was last seen."""
    restarted_pods: int = 0
    """How many Pods were restarted for the last change."""
    restart: Restart | None = None
    """The last restart."""
    conditions: Conditions = ()
    """`Ready`: changes will be acted upon. `PodsSelected`: the selector matches Pods. `Restarting`: Pods are still to
    be restarted; the message says what hinders, or quotes the API server's refusal."""


class ConfigMonitor(
    Resource,
    group="magalix.com",
    version="v1",
    short_names=("cmon",),
    columns=(
        Column("Source", "status.source"),
        Column("Restarted", "status.restarted_pods"),
        Column("Last restart", "status.last_restart_time"),
    ),
):
    """Restarts the Pods that match a selector when the data of a ConfigMap or a Secret changes."""

    spec: ConfigMonitorSpec
    status: ConfigMonitorStatus = ConfigMonitorStatus()
