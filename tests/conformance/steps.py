"""Sequences of requests, each of which both servers must answer alike."""

from typing import Any

from .harness import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, Answer, Both

__all__ = ["CLUSTER_ROLES", "CONFIG_MAPS", "DEPLOYMENTS", "PODS", "config_map", "deployment", "play", "pod"]

CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"
PODS = "/api/v1/namespaces/{ns}/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

_KINDS = {"APPLY": APPLY, "MERGE": MERGE, "JSONPATCH": JSON_PATCH, "STRATEGIC": STRATEGIC}

Step = tuple[Any, ...]
"""Method (or the kind of a patch), path, and perhaps a body."""


def config_map(name: str = "web", data: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        **({"data": data} if data is not None else {}),
    }


def pod(name: str = "web", spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "a", "image": "i"}], **(spec or {})},
    }


def deployment(name: str = "web", spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **metadata},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "i"}]},
            },
            **(spec or {}),
        },
    }


async def play(both: Both, *steps: Step, ignore: tuple[str, ...] = ()) -> list[Answer]:
    """Ask both servers everything in order; the first difference fails."""
    answers: list[Answer] = []
    for method, path, *rest in steps:
        kind = _KINDS.get(method, JSON)
        body = rest[0] if rest else None
        verb = "PATCH" if method in _KINDS else method
        answers.append(await both.same(verb, path, body, content_type=kind, ignore=ignore))
    return answers
