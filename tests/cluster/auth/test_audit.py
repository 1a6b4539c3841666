"""The audit log: the recorded fields of each level, and the functions for tests."""

import json
import stat
from pathlib import Path

import pytest

from steersman_cluster.auth import Attributes
from steersman_cluster.auth.audit import Log
from steersman_cluster.auth.audit_policy import Level, Policy, PolicyError

from .conftest import user

JANE = user("jane")
UPDATE = Attributes("update", "apps", "v1", "deployments", "status", "default", "web")
SECRET = Attributes("create", "", "v1", "secrets", "", "default")


def one(log: Log, attributes: Attributes = UPDATE, **more) -> None:
    entry = log.begin(JANE, attributes, uri="/x", **more)
    if entry is not None:
        entry.authorized((True, "because"))
        entry.request({"kind": "Secret", "data": {"a": "b"}})
        entry.complete(200, {"kind": "Deployment"})


def test_an_event_says_who_did_what():
    log = Log(now=lambda: 0.0)
    one(log, source=["127.0.0.1"], user_agent="kubectl/1", acting_as=user("joe"))
    [event] = log.events()
    assert event.pop("auditID")
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "stage": "ResponseComplete",
        "requestURI": "/x",
        "verb": "update",
        "user": {"username": "jane", "groups": ["system:authenticated"]},
        "impersonatedUser": {"username": "joe", "groups": ["system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "kubectl/1",
        "objectRef": {
            "resource": "deployments",
            "namespace": "default",
            "name": "web",
            "apiGroup": "apps",
            "apiVersion": "v1",
            "subresource": "status",
        },
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": "1970-01-01T00:00:00.000000Z",
        "stageTimestamp": "1970-01-01T00:00:00.000000Z",
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "because"},
    }


def test_tests_ask_who_did_what():
    log = Log()
    one(log)
    one(log, SECRET, acting_as=user("joe"))
    assert len(log.events(user="jane")) == 1
    assert len(log.events(user="joe", verb="create", resource="secrets")) == 1
    assert len(log.events(resource="deployments/status", name="web")) == 1
    assert not log.events(namespace="other")
    log.clear()
    assert not log.events()


def test_bodies_are_recorded_where_wanted_and_never_those_of_secrets():
    log = Log(Policy.at(Level.REQUEST_RESPONSE))
    one(log)
    one(log, SECRET)
    first, second = log.events()
    assert first["requestObject"]["data"] == {"a": "b"}
    assert first["responseObject"] == {"kind": "Deployment"}
    assert "requestObject" not in second
    assert second["level"] == "Metadata"


def test_a_refusal_is_recorded_with_its_reason():
    log = Log()
    entry = log.begin(JANE, UPDATE, uri="/x")
    assert entry is not None
    entry.complete(403, {"kind": "Status", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403})
    status = log.events()[0]["responseStatus"]
    assert status == {"metadata": {}, "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403}


def test_the_file_has_a_line_for_each_event(tmp_path: Path):
    path = tmp_path / "audit.log"
    log = Log(Policy({"rules": [{"level": "Metadata"}]}), path=path)
    one(log)
    log.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["stage"] for line in lines] == ["RequestReceived", "ResponseComplete"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({"users": ["joe"]}, False),
        ({"userGroups": ["system:authenticated"]}, True),
        ({"verbs": ["get", "update"]}, True),
        ({"namespaces": ["other"]}, False),
        ({"resources": [{"group": "apps"}]}, True),
        ({"resources": [{"group": "apps", "resources": ["deployments"]}]}, False),
        ({"resources": [{"group": "apps", "resources": ["deployments/*"]}]}, True),
        ({"resources": [{"group": "*", "resources": ["*/status"], "resourceNames": ["web"]}]}, True),
        ({"nonResourceURLs": ["*"]}, False),
    ],
)
def test_the_first_rule_that_matches_decides(rule: dict, matches: bool):
    policy = Policy({"rules": [{"level": "Request", **rule}]})
    assert policy.decide(JANE, UPDATE).level == (Level.REQUEST if matches else Level.NONE)


def test_a_policy_is_read_from_a_file_as_the_api_server_does(tmp_path: Path):
    path = tmp_path / "policy.yaml"
    path.write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Request\n"
    )
    decision = Policy.load(path).decide(JANE, UPDATE)
    assert (decision.level, decision.omitted) == (Level.REQUEST, {"RequestReceived"})
    path.write_text("rules: [{level: Loud}]")
    with pytest.raises(PolicyError, match=r"rules\[0\].level: 'Loud'"):
        Policy.load(path)


def test_what_the_policy_leaves_out_costs_nothing():
    log = Log(Policy({"rules": [{"level": "None"}]}))
    assert log.begin(JANE, UPDATE, uri="/x") is None
