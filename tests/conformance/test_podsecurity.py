"""PodSecurity: what namespaces refuse and warn of, on both servers, in the same words."""

from typing import Any

import pytest

from steersman.testing import eventually

from .harness import MERGE, Both, Server
from .steps import DEPLOYMENTS, PODS, deployment, pod

PREFIX = "pod-security.kubernetes.io/"
NAMESPACE = "/api/v1/namespaces/{ns}"
HARD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str = "a", context: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", **({"securityContext": context} if context is not None else {}), **more}


def with_context(**context: Any) -> dict[str, Any]:
    return {"securityContext": context}


def of(*contexts: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [container(name, context) for name, context in zip("abc", contexts, strict=False)]}


HOST = {"httpGet": {"port": 80, "host": "other"}}
SPECS: dict[str, dict[str, Any]] = {
    "plain": {},
    "hardened": of(HARD),
    "hardened by the pod": {
        **with_context(runAsNonRoot=True, seccompProfile={"type": "Localhost", "localhostProfile": "p"}),
        **of({"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
    },
    "privileged": of({"privileged": True}, {"privileged": False}, {"privileged": True}),
    "capabilities": of({"capabilities": {"add": ["NET_ADMIN", "CHOWN"]}}, {"capabilities": {"add": ["SYS_TIME"]}}),
    "host namespaces": {"hostNetwork": True, "hostPID": True, "hostIPC": True},
    "host path": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}]},
    "volumes": {
        "volumes": [
            {"name": "n", "nfs": {"server": "s", "path": "/p"}},
            {"name": "i", "iscsi": {"targetPortal": "p", "iqn": "iqn.2001-04.com.example:s", "lun": 0}},
            {"name": "s", "secret": {"secretName": "x"}},
        ]
    },
    "host ports": {
        "containers": [
            container("a", ports=[{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 90}]),
            container("b", ports=[{"containerPort": 82}]),
        ]
    },
    "hosts of probes": {
        "containers": [
            container("b", livenessProbe={"tcpSocket": {"port": 1, "host": "x"}}),
            container("a", lifecycle={"preStop": HOST}, readinessProbe=HOST),
        ]
    },
    "proc mount": of({"procMount": "Default"}) | {"hostUsers": True},
    "unmasked": of({"procMount": "Unmasked"}) | {"hostUsers": False},
    "selinux": {
        **with_context(seLinuxOptions={"type": "container_engine_t"}),
        **of({"seLinuxOptions": {"type": "bad_t", "user": "u", "role": "r"}}, {"seLinuxOptions": {"level": "s0"}}),
    },
    "selinux of the pod": with_context(seLinuxOptions={"type": "x_t"}),
    "seccomp": {**with_context(seccompProfile={"type": "Unconfined"}), **of({}, HARD)},
    "seccomp of containers": of({"seccompProfile": {"type": "Unconfined"}}, {"seccompProfile": {"type": "Unconfined"}}),
    "app armor": {**with_context(appArmorProfile={"type": "Unconfined"}), **of({})},
    "sysctls": with_context(
        sysctls=[{"name": name, "value": "1"} for name in ("net.ipv4.tcp_rmem", "kernel.msgmax", "net.ipv4.x")]
    ),
    "root": {**with_context(runAsUser=0, runAsNonRoot=False), **of({"runAsUser": 0}, {"runAsUser": 7})},
    "root in a user namespace": {**with_context(runAsUser=0), "hostUsers": False, **of(HARD)},
    "windows": {"os": {"name": "windows"}, **with_context(runAsNonRoot=True)},
    "windows host": {
        "os": {"name": "windows"}, "hostNetwork": True,
        **with_context(windowsOptions={"hostProcess": True}, runAsNonRoot=True),
    },
    "init": {"initContainers": [container("z", {"privileged": True})], **of(HARD)},
}  # fmt: skip


async def label(both: Both, **labels: str | None) -> None:
    """Label the namespace, and wait until both servers go by it."""
    named = {PREFIX + key.replace("_", "-"): value for key, value in labels.items()}
    await both.each("PATCH", NAMESPACE, {"metadata": {"labels": named}}, content_type=MERGE)

    async def agree() -> bool:  # kube-apiserver reads labels from a watch of its own
        embedded, real = [await judgements(server, both.namespace) for server in both.servers]
        return embedded == real

    await eventually(agree, what="both servers go by the labels")


async def judgements(server: Server, namespace: str) -> str:
    """Return the responses of a server to harmless, careless and dangerous Pods, and to a template."""
    said: list[object] = []
    for spec in (SPECS["hardened"], SPECS["plain"], SPECS["privileged"]):
        answer = await server.ask("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod("probe", spec))
        said += [answer.code, answer.body.get("message"), sorted(answer.warnings)]
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All"
    answer = await server.ask("POST", path, deployment())
    return repr([*said, answer.code, sorted(answer.warnings)])


async def test_every_level_judges_pods_alike(both: Both):
    for enforced in ("baseline", "restricted"):
        await label(both, enforce=enforced, warn="restricted")
        for name, spec in SPECS.items():
            body = pod("web", spec)
            await both.same("POST", f"{PODS}?dryRun=All", body), name


@pytest.mark.parametrize("version", ["v1.0", "v1.18", "v1.22", "v1.24", "v1.26", "v1.30", "v1.33", "v1.99"])
async def test_older_versions_judge_pods_alike(both: Both, version: str):
    await label(both, enforce="restricted", enforce_version=version, warn="baseline", warn_version=version)
    seccomp = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    for spec in SPECS.values():
        annotations = {} if "seccompProfile" in str(spec) else seccomp  # one that contradicts a field is refused
        await both.same("POST", f"{PODS}?dryRun=All", pod("web", spec, annotations=annotations))


async def test_templates_are_warned_of_and_never_refused(both: Both):
    await label(both, enforce="restricted", audit="baseline")
    await both.same("POST", f"{DEPLOYMENTS}?dryRun=All", deployment())
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}}
    await both.same("POST", "/apis/batch/v1/namespaces/{ns}/jobs?dryRun=All", job)
    cron = {"metadata": {"name": "j"}, "spec": {"schedule": "1 1 1 1 1", "jobTemplate": {"spec": job["spec"]}}}
    await both.same("POST", "/apis/batch/v1/namespaces/{ns}/cronjobs?dryRun=All", cron)
    template = {"metadata": {"name": "t"}, "template": {"spec": pod()["spec"]}}
    await both.same("POST", "/api/v1/namespaces/{ns}/podtemplates?dryRun=All", template)
    await label(both, warn="privileged")
    await both.same("POST", f"{DEPLOYMENTS}?dryRun=All", deployment())


async def test_only_changes_of_images_and_containers_are_judged_again(both: Both):
    await both.same("POST", PODS, pod())
    await label(both, enforce="restricted")
    await both.same("PATCH", f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    image = {"spec": {"containers": [{"name": "a", "image": "j"}]}}
    await both.same("PATCH", f"{PODS}/web", image, content_type="application/strategic-merge-patch+json")
    more = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "d"}]}}
    kind = "application/strategic-merge-patch+json"
    await both.same("PATCH", f"{PODS}/web/ephemeralcontainers", more, content_type=kind)


async def test_labels_are_judged_alike(both: Both):
    for key, value in (("enforce", "no"), ("warn", ""), ("audit-version", "1.2"), ("warn-version", "v1.07")):
        await both.same(
            "PATCH", NAMESPACE, {"metadata": {"labels": {PREFIX + key: value}}}, content_type=MERGE
        )  # fmt: skip
    bad = {PREFIX + "enforce": "x", PREFIX + "enforce-version": "y", PREFIX + "audit": "z"}
    await both.same("POST", "/api/v1/namespaces?dryRun=All", {"metadata": {"name": "some", "labels": bad}})


async def test_pods_that_are_there_are_warned_of(both: Both):
    for name, spec in (("b", {}), ("a", {}), ("c", SPECS["privileged"]), ("d", SPECS["hardened"])):
        await both.each("POST", PODS, pod(name, spec))
    for level in ("baseline", "restricted", "restricted", "baseline"):
        body = {"metadata": {"labels": {PREFIX + "enforce": level}}}

        async def agree(body: dict[str, Any] = body) -> bool:  # kube-apiserver first judges what its caches hold
            tried = await both.each("PATCH", f"{NAMESPACE}?dryRun=All", body, content_type=MERGE)
            return sorted(tried[0].warnings) == sorted(tried[1].warnings)

        await eventually(agree, what="the real server's caches hold the Pods and the last labels")
        await both.same("PATCH", NAMESPACE, body, content_type=MERGE, ignore=("metadata.managedFields",))
    await both.same("POST", f"{PODS}?dryRun=All", {**pod(), "metadata": {"generateName": "x-"}})
