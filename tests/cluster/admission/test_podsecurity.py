"""PodSecurity by the labels of a namespace, without a server; what the texts are is compared with a real one."""

from typing import Any

import pytest

from steersman_cluster.admission import Admission
from steersman_cluster.admission.pod_security import Level, policy_of
from steersman_cluster.errors import APIError

from .conftest import Store

PREFIX = "pod-security.kubernetes.io/"


@pytest.fixture
def labelled(store: Store, admission: Admission) -> Any:
    store.put("", "serviceaccounts", {"metadata": {"name": "default", "namespace": "default"}})

    def label(**labels: str) -> None:
        named = {PREFIX + mode: level for mode, level in labels.items()}
        store.put("", "namespaces", {"metadata": {"name": "default", "labels": named}})

    return label


def written(store: Store, **context: Any):
    spec = {"containers": [{"name": "a", "image": "i", "securityContext": context}]}
    return store.write({"metadata": {"name": "p"}, "spec": spec}, kind="Pod", resource="pods")


def test_a_pod_below_the_level_is_refused_and_noted(store: Store, admission: Admission, labelled: Any):
    labelled(enforce="baseline")
    write = written(store, privileged=True)
    admission.mutate_now(write)
    with pytest.raises(APIError, match=r'violates PodSecurity "baseline:latest": privileged') as refused:
        admission.validate_now(write)
    assert refused.value.code == 403
    assert write.audit_annotations[f"{PREFIX}enforce-policy"] == "baseline:latest"


def test_a_pod_below_the_level_that_only_warns_is_taken(store: Store, admission: Admission, labelled: Any):
    labelled(warn="restricted", audit="restricted")
    write = written(store)
    admission.mutate_now(write)
    admission.validate_now(write)
    assert write.warnings[0].startswith('would violate PodSecurity "restricted:latest": allowPrivilegeEscalation')
    assert f"{PREFIX}audit-violations" in write.audit_annotations


def test_a_namespace_without_labels_takes_every_pod(store: Store, admission: Admission, labelled: Any):
    labelled()
    write = written(store, privileged=True)
    admission.mutate_now(write)
    admission.validate_now(write)
    assert write.warnings == []


def test_what_is_enforced_is_warned_of_for_templates_too():
    policy, faults = policy_of({PREFIX + "enforce": "restricted", PREFIX + "enforce-version": "v1.30"})
    assert (policy.warn, policy.audit, faults) == (Level("restricted", "v1.30"), Level(), [])


def test_a_wrong_label_refuses_by_the_strictest_level():
    policy, faults = policy_of({PREFIX + "enforce": "strict", PREFIX + "warn": "strict"})
    assert (policy.enforce, policy.warn) == (Level("restricted"), Level())
    assert [str(fault.path) for fault in faults] == [f"metadata.labels[{PREFIX}{mode}]" for mode in ("enforce", "warn")]
