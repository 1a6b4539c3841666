"""The container runtime of the node, by its command `ctr`."""

from __future__ import annotations

from steersman.testing.real_node import RealNode


def ctr(node: RealNode, *words: str) -> str:
    """Run `ctr` for the containers and images of Kubernetes, and return its output."""
    return node.inside("ctr", f"--address={node.at.runtime_socket}", "--namespace=k8s.io", *words)


def tag_image(node: RealNode, name: str, other: str) -> None:
    """Give an image of the node another name in addition."""
    ctr(node, "images", "tag", "--force", name, other)
