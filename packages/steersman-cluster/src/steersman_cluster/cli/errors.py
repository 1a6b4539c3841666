"""Errors with a message for the user of a command: what failed, and what to do."""

from __future__ import annotations

__all__ = ["user_errors"]


def user_errors() -> tuple[type[Exception], ...]:
    """Return the errors that the commands print as one line, without a traceback."""
    from steersman.client.errors import ClientError
    from steersman.extras import MissingExtraError
    from steersman_cluster.cli.host import ClusterStartError
    from steersman_cluster.cli.user_kubeconfig import KubeconfigError
    from steersman_cluster.detached import StateError
    from steersman_cluster.nodes.image_store.errors import ImageArchiveError

    return ClusterStartError, KubeconfigError, StateError, ClientError, MissingExtraError, ImageArchiveError
