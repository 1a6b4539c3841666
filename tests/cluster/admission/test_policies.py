"""ValidatingAdmissionPolicies: denials, warnings and audit annotations."""

import pytest

from steersman_cluster.admission import Admission
from steersman_cluster.auth import Authorizer
from steersman_cluster.errors import APIError
from steersman_cluster.strategy import User

from .conftest import Store

GROUP = "admissionregistration.k8s.io"
MAPS = {"resourceRules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}


def policy(store: Store, *validations: dict, actions: tuple[str, ...] = ("Deny",), bind: dict | None = None, **more):
    spec = {"matchConstraints": MAPS, "validations": list(validations), **more}
    store.put(GROUP, "validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    bound = {"policyName": "p", "validationActions": list(actions), **(bind or {})}
    store.put(GROUP, "validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound})


def cm(**data: str) -> dict:
    return {"metadata": {"name": "c", "namespace": "default"}, "data": data}


def refusal(admission: Admission, write) -> APIError:
    with pytest.raises(APIError) as refused:
        admission.validate_now(write)
    return refused.value


ORIGIN = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
BIG = {"expression": "object.data.size != 'big'"}


def test_what_breaks_a_policy_is_refused(store: Store, admission: Admission):
    policy(store, BIG)
    assert not admission.needs_async(store.write(cm()))
    admission.validate_now(store.write(cm(size="small")))
    error = refusal(admission, store.write(cm(size="big")))
    message = f"{ORIGIN}failed expression: object.data.size != 'big'"
    assert error.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'configmaps "c" is forbidden: {message}',
        "reason": "Invalid",
        "details": {"name": "c", "kind": "configmaps", "causes": [{"message": message}]},
        "code": 422,
    }


@pytest.mark.parametrize(
    ("more", "code", "text"),
    [
        ({"message": "too big"}, 422, "too big"),
        ({"message": "too big", "reason": "Forbidden"}, 403, "too big"),
        ({"messageExpression": "'size ' + object.data.size"}, 422, "size big"),
        ({"messageExpression": "object.nothing", "message": "too big"}, 422, "too big"),
    ],
)
def test_the_message_is_the_best_there_is(store: Store, admission: Admission, more: dict, code: int, text: str):
    policy(store, {**BIG, **more})
    error = refusal(admission, store.write(cm(size="big")))
    assert (error.code, error.message) == (code, f'configmaps "c" is forbidden: {ORIGIN}{text}')


def test_a_binding_may_only_warn_and_record(store: Store, admission: Admission):
    policy(store, {**BIG, "message": "too big"}, actions=("Warn", "Audit"))
    write = store.write(cm(size="big"))
    admission.validate_now(write)
    assert write.warnings == ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': too big"]
    assert write.audit_annotations == {
        "validation.policy.admission.k8s.io/validation_failure": '[{"message":"too big","policy":"p","binding":"b",'
        '"expressionIndex":0,"validationActions":["Warn","Audit"]}]'
    }


def test_an_expression_that_fails_refuses_unless_failures_are_ignored(store: Store, admission: Admission):
    policy(store, BIG)
    error = refusal(admission, store.write(cm()))
    assert error.message.endswith(f"expression '{BIG['expression']}' resulted in error: no such key: size")
    policy(store, BIG, failurePolicy="Ignore")
    admission.validate_now(store.write(cm()))


def test_params_variables_and_the_namespace_are_seen(store: Store, admission: Admission):
    store.put("", "configmaps", {"metadata": {"name": "limits", "namespace": "default"}, "data": {"most": "big"}})
    policy(
        store,
        {"expression": "variables.size != params.data.most && namespaceObject.metadata.labels.team == 'a'"},
        variables=[{"name": "raw", "expression": "object.data.size"}, {"name": "size", "expression": "variables.raw"}],
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        bind={"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}},
    )
    admission.validate_now(store.write(cm(size="small")))
    refusal(admission, store.write(cm(size="big")))
    store.delete("", "configmaps", "default", "limits")
    error = refusal(admission, store.write(cm(size="small")))
    assert "failed to configure binding: no params found for policy binding with `Deny`" in error.message


def test_a_policy_may_ask_what_the_writer_may_do(store: Store):
    admission = Admission(store, authorizer=Authorizer(store))
    policy(
        store,
        {"expression": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"},
    )
    refusal(admission, store.write(cm()))
    admission.validate_now(store.write(cm(), user=User("root", groups=("system:masters",))))


def test_only_what_a_policy_concerns_is_judged(store: Store, admission: Admission):
    policy(store, {"expression": "false"}, bind={"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}})
    admission.validate_now(store.write(cm()))
    admission.validate_now(store.write(cm(), kind="Secret", resource="secrets"))
    policy(store, {"expression": "false"}, matchConditions=[{"name": "c", "expression": "request.name == 'd'"}])
    admission.validate_now(store.write(cm()))
    policy(store, {"expression": "false"})
    refusal(admission, store.write(cm()))
    store.delete(GROUP, "validatingadmissionpolicybindings", "", "b")
    admission.validate_now(store.write(cm()))
