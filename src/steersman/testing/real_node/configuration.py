"""The command lines and configuration files of a node's components, as pure functions of its directory.

The control plane uses the command lines of `controlplane.commands`, with additional `apiserver_arguments`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from steersman.testing.controlplane.commands import Layout
from steersman.testing.real_node.first_process import NODE_ADDRESS
from steersman.testing.real_node.programs import CNI_DIRECTORY

__all__ = [
    "DNS_ADDRESS",
    "NODE_ADDRESS",
    "NODE_NAME",
    "PAUSE_IMAGE",
    "SERVICE_ADDRESS",
    "NodeLayout",
    "apiserver_arguments",
    "containerd",
    "files",
    "kube_proxy",
    "kubelet",
]

NODE_NAME: Final = "node-1"
POD_RANGE: Final = "10.244.0.0/24"
SERVICE_ADDRESS: Final = "10.0.0.1"
DNS_ADDRESS: Final = "10.0.0.10"
PAUSE_IMAGE: Final = "steersman.test/pause:1"


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """The files of a node below the directory of its control plane."""

    plane: Layout

    @property
    def home(self) -> Path:
        """The directory for all files that containerd, kubelet and CNI plug-ins write."""
        return self.plane.directory / "node"

    @property
    def runtime_socket(self) -> Path:
        """The socket of containerd."""
        return self.home / "containerd.sock"

    @property
    def pod_logs(self) -> Path:
        """The logs of containers, by namespace, Pod and container."""
        return self.home / "pod-logs"

    def file(self, name: str) -> Path:
        """Return the path of a configuration file."""
        return self.home / name


def apiserver_arguments(at: Layout) -> tuple[str, ...]:
    """Return the flags that the API server needs for connections to kubelets and from Pods."""
    return (
        "--bind-address=0.0.0.0",
        f"--advertise-address={NODE_ADDRESS}",
        "--endpoint-reconciler-type=lease",
        # In addition to RBAC, which every control plane uses.
        "--authorization-mode=Node",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={at.pki('kubelet-client.crt')}",
        f"--kubelet-client-key={at.pki('kubelet-client.key')}",
        f"--kubelet-certificate-authority={at.pki('ca.crt')}",
        "--kubelet-preferred-address-types=InternalIP",
    )


def containerd(binary: str, at: NodeLayout) -> list[str]:
    """Return the command line of containerd."""
    return [binary, "--config", str(at.file("containerd.toml"))]


def kubelet(binary: Path, at: NodeLayout) -> list[str]:
    """Return the command line of the kubelet."""
    return [
        str(binary),
        f"--config={at.file('kubelet.json')}",
        f"--kubeconfig={at.plane.kubeconfig('node')}",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={NODE_ADDRESS}",
        f"--root-dir={at.home / 'kubelet'}",
        f"--cert-dir={at.home / 'kubelet-pki'}",
    ]


def kube_proxy(binary: Path, at: NodeLayout) -> list[str]:
    """Return the command line of kube-proxy."""
    return [str(binary), f"--config={at.file('kube-proxy.json')}"]


def files(at: NodeLayout, *, cgroup: str, max_open_files: int) -> dict[Path, str]:
    """Return the configuration files of the components.

    Args:
        at: The files of the node.
        cgroup: The control group of the containers, relative to the root of the hierarchy.
        max_open_files: The limit of file descriptors that the kubelet sets for itself; root without CAP_SYS_RESOURCE
            cannot raise its hard limit.
    """
    return {
        at.file("cni/10-steersman.conflist"): json.dumps(_cni(at), indent=2),
        at.file("containerd.toml"): _containerd(at),
        at.file("kubelet.json"): json.dumps(_kubelet(at, cgroup, max_open_files), indent=2),
        at.file("kube-proxy.json"): json.dumps(_kube_proxy(at), indent=2),
        at.file("resolv.conf"): f"nameserver {DNS_ADDRESS}\n",
    }


def _cni(at: NodeLayout) -> dict[str, Any]:
    """Return the CNI configuration, which connects each Pod to the node by a separate veth pair.

    All traffic is routed. The packet filter rules of Services apply to bridged traffic only with the module
    br_netfilter.
    """
    return {
        "cniVersion": "1.0.0",
        "name": "steersman",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": POD_RANGE}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": str(at.file("cni-state")),
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _containerd(at: NodeLayout) -> str:
    """Return the configuration of containerd 1.6 and 1.7; these versions do not read JSON."""
    plugins = "plugins.'io.containerd.grpc.v1.cri'"
    return f"""version = 2
root = '{at.file("containerd")}'
state = '{at.file("containerd-state")}'

[grpc]
address = '{at.runtime_socket}'

[{plugins}]
sandbox_image = '{PAUSE_IMAGE}'
# Root without CAP_SYS_RESOURCE cannot lower the score.
restrict_oom_score_adj = true
disable_apparmor = true

[{plugins}.cni]
bin_dir = '{CNI_DIRECTORY}'
conf_dir = '{at.file("cni")}'

[{plugins}.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[{plugins}.containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins.'io.containerd.internal.v1.opt']
path = '{at.file("containerd-opt")}'
"""


def _kubelet(at: NodeLayout, cgroup: str, max_open_files: int) -> dict[str, Any]:
    pki = at.plane.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{at.runtime_socket}",
        "imageServiceEndpoint": f"unix://{at.runtime_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "maxOpenFiles": max_open_files,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki("ca.crt"))},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki("kubelet.crt")),
        "tlsPrivateKeyFile": str(pki("kubelet.key")),
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "podCIDR": POD_RANGE,
        "resolvConf": str(at.file("resolv.conf")),
        "podLogsDir": str(at.pod_logs),
        "volumePluginDir": str(at.file("volume-plugins")),
        # A full disk of the host must not evict the Pods of a test.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "syncFrequency": "10s",
        "serializeImagePulls": False,
    }


def _kube_proxy(at: NodeLayout) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(at.plane.kubeconfig("proxy"))},
        "mode": "iptables",
        "clusterCIDR": POD_RANGE,
        "hostnameOverride": NODE_NAME,
        # Zero keeps the limits of the kernel, which apply to the whole machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "100ms"},
    }
