"""Security profiles in the annotations of Pods and templates: copied to fields, validated, and compared with them."""

from typing import Any

import pytest

from .harness import Both

PODS = "/api/v1/namespaces/{ns}/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"


def local(name: str) -> dict[str, Any]:
    return {"type": "Localhost", "localhostProfile": name}


def template(
    annotations: dict[str, str],
    *,
    pod: dict[str, Any] | None = None,
    a: dict[str, Any] | None = None,
    i: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Pod of an init container `i` and a container `a`, with annotations and security contexts."""
    first: dict[str, Any] = {"name": "i", "image": "x", **({"securityContext": i} if i else {})}
    second: dict[str, Any] = {"name": "a", "image": "x", **({"securityContext": a} if a else {})}
    context = {"securityContext": pod} if pod else {}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"initContainers": [first], "containers": [second], **context, **spec},
    }


APPARMOR_CASES: dict[str, dict[str, Any]] = {
    "unconfined": template({APPARMOR + "a": "unconfined"}),
    "runtime default": template({APPARMOR + "a": "runtime/default", APPARMOR + "i": "localhost/mine"}),
    "empty": template({APPARMOR + "a": ""}),
    "no profile": template({APPARMOR + "a": "localhost/"}),
    "padded": template({APPARMOR + "a": "localhost/ mine "}),
    "unknown": template({APPARMOR + "a": 'some"thing'}),
    "too long": template({APPARMOR + "a": "localhost/" + 4096 * "x"}),
    "of no container": template({APPARMOR + "b": "unconfined"}),
    "of no container and unknown": template({APPARMOR + "b": "x"}),
    "with the same field": template({APPARMOR + "a": "localhost/x"}, a={"appArmorProfile": local("x")}),
    "with another type": template({APPARMOR + "a": "localhost/x"}, a={"appArmorProfile": {"type": "Unconfined"}}),
    "with another default": template({APPARMOR + "a": "unconfined"}, a={"appArmorProfile": {"type": "RuntimeDefault"}}),
    "with another profile": template({APPARMOR + "a": "localhost/x"}, a={"appArmorProfile": local("y")}),
    "with another local": template({APPARMOR + "a": "unconfined"}, a={"appArmorProfile": local("y")}),
    "with a wrong field": template({APPARMOR + "a": "unconfined"}, a={"appArmorProfile": {"type": "Foo"}}),
    "as the pod": template({APPARMOR + "a": "unconfined"}, pod={"appArmorProfile": {"type": "Unconfined"}}),
    "other than the pod": template({APPARMOR + "a": "localhost/x"}, pod={"appArmorProfile": {"type": "Unconfined"}}),
    "invalid beside the pod": template({APPARMOR + "a": "localhost/"}, pod={"appArmorProfile": {"type": "Unconfined"}}),
    "on windows": template({APPARMOR + "a": "unconfined"}, os={"name": "windows"}),
    "beside a context": template({APPARMOR + "a": "unconfined"}, a={"runAsUser": 5}),
}
SECCOMP_CASES: dict[str, dict[str, Any]] = {
    "pod": template({SECCOMP_POD: "runtime/default"}),
    "docker": template({SECCOMP_POD: "docker/default", SECCOMP + "a": "unconfined"}),
    "local": template({SECCOMP_POD: "localhost/x/y"}),
    "absolute": template({SECCOMP + "a": "localhost//x"}),
    "upwards": template({SECCOMP_POD: "localhost/../x"}),
    "unknown": template({SECCOMP_POD: "x"}),
    "unknown of a container": template({SECCOMP + "a": "x"}),
    "of no container": template({SECCOMP + "b": "unconfined"}),
    "with the same field": template(
        {SECCOMP_POD: "docker/default"}, pod={"seccompProfile": {"type": "RuntimeDefault"}}
    ),
    "with another field": template({SECCOMP_POD: "unconfined"}, pod={"seccompProfile": {"type": "RuntimeDefault"}}),
    "of a container with another": template(
        {SECCOMP + "a": "runtime/default", SECCOMP + "i": "localhost/x"},
        a={"seccompProfile": {"type": "Unconfined"}},
        i={"seccompProfile": local("y")},
    ),
    "local with another": template({SECCOMP + "a": "unconfined"}, a={"seccompProfile": local("y")}),
}
CASES = {
    **{f"apparmor {name}": case for name, case in APPARMOR_CASES.items()},
    **{f"seccomp {name}": case for name, case in SECCOMP_CASES.items()},
}


@pytest.mark.parametrize("name", CASES)
async def test_profiles_in_annotations_of_pods(both: Both, name: str):
    await both.same("POST", PODS, {**CASES[name], "metadata": {"name": "p", **CASES[name]["metadata"]}})


@pytest.mark.parametrize("name", CASES)
async def test_profiles_in_annotations_of_templates(both: Both, name: str):
    given = CASES[name]
    labelled = {**given, "metadata": {**given["metadata"], "labels": {"app": "d"}}}
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": labelled}
    await both.same("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})


async def test_apparmor_annotations_of_a_pod_stay(both: Both):
    pod = template({APPARMOR + "a": "unconfined", "other": "1"})
    await both.same("POST", PODS, {**pod, "metadata": {"name": "p", **pod["metadata"]}})
    for annotations in (
        {APPARMOR + "a": "runtime/default"},
        {APPARMOR + "a": None},
        {APPARMOR + "i": "unconfined"},
        {APPARMOR + "x": "what"},
        {"other": "2"},
    ):
        merge = "application/merge-patch+json"
        await both.same("PATCH", f"{PODS}/p", {"metadata": {"annotations": annotations}}, content_type=merge)
