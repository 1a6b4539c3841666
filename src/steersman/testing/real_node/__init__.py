"""A real Kubernetes cluster of one node for tests, in separate Linux namespaces: control plane, kubelet, containers.

    with RealNode.start() as cluster:
        cluster.import_images(Path("image.tar"))
        cluster.kubectl("apply", "-f", "install.yaml")

It needs Linux, root, the Debian packages of `PACKAGES`, and `hack/controlplane/build.sh --node`.
"""

from __future__ import annotations

from steersman.testing.real_node.image_archive import program_image
from steersman.testing.real_node.node import RealNode
from steersman.testing.real_node.programs import (
    PACKAGES,
    Unavailable,
    install_packages,
    missing_packages,
    unavailable,
)

__all__ = [
    "PACKAGES",
    "RealNode",
    "Unavailable",
    "install_packages",
    "missing_packages",
    "program_image",
    "unavailable",
]
