"""The ConfigMonitor kind: its spec and its status."""

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
    """`delete` evicts every Pod, and its owner creates a new one; `rollout` starts a rollout of the Deployment,
    StatefulSet or DaemonSet of the Pod. Pods without such an owner are evicted."""
    force: bool = False
    """Delete Pods without regard to PodDisruptionBudgets."""


class PendingPod(Model):
    name: str
    uid: str


class Restart(Model):
    """The restart for a change of the data. It is written before the first Pod is restarted, so that a new process
    continues with these Pods."""

    hash: str
    """The content that the Pods are restarted for."""
    version: str = ""
    """resourceVersion of the object in which that content was observed."""
    selector: Mapping[str, str] = {}
    """The podSelector that selected the Pods."""
    total: int = 0
    """How many Pods ran with the older content, without those of other ConfigMonitors."""
    pending: tuple[PendingPod, ...] = ()
    """Pods that are still to be restarted."""


class ConfigMonitorStatus(Model):
    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    source: str = ""
    """The watched object, such as `ConfigMap/flaskapp-config`."""
    observed_hash: str = ""
    """Hash of the observed data. Pods are restarted when the data has another hash."""
    observed_version: str = ""
    """resourceVersion of the object in which that data was first observed."""
    last_restart_time: datetime | None = None
    """The time of the last observed change."""
    restarted_pods: int = 0
    """How many Pods were restarted for the last change."""
    restart: Restart | None = None
    """The last restart."""
    conditions: Conditions = ()
    """`Ready`: changes will be acted upon. `PodsSelected`: the selector matches Pods. `Restarting`: Pods are still to
    be restarted; the message has the reason, or the error of the API server."""


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
