"""Webhooks: selection, requests and results, over TLS on the loopback."""

import asyncio
import base64

import pytest
from aiohttp import web

from steersman.pki import Authority
from steersman_cluster.admission import Admission, Equivalent
from steersman_cluster.errors import APIError

from .conftest import HookServer, Store, patch, register


def cm(name: str = "c", **more) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", **more}}


async def refusal(admission: Admission, write) -> APIError:
    try:
        await admission.mutate(write)
        await admission.validate(write)
    except APIError as error:
        return error
    raise AssertionError("the write was let through")


def failed(text: str) -> str:
    return f'Internal error occurred: failed calling webhook "h.example.com": {text}'


async def test_a_write_that_no_webhook_wants_need_not_wait(store: Store, admission: Admission, hooks: HookServer):
    assert not admission.needs_async(store.write(cm()))
    register(store, "validating", "v", hooks.hook("h"))
    assert admission.needs_async(store.write(cm()))
    assert not admission.needs_async(store.write(cm(), kind="Secret", resource="secrets"))
    assert not admission.needs_async(store.write(cm(), subresource="status"))
    store.delete("admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "v")
    assert not admission.needs_async(store.write(cm()))


async def test_a_webhook_is_asked_about_the_write(store: Store, admission: Admission, hooks: HookServer):
    hooks.answers["h"] = lambda _: {"allowed": True, "warnings": ["careful"], "auditAnnotations": {"k": "v"}}
    register(store, "validating", "v", hooks.hook("h"))
    write = store.write(cm())
    await admission.validate(write)
    [(_, request)] = hooks.asked
    assert request.pop("uid")
    assert request == {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "c",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
        "object": cm(),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    assert write.warnings == ["careful"]
    assert write.audit_annotations == {"h.example.com/k": "v"}


@pytest.mark.parametrize("kind", ["validating", "mutating"])
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, (400, "", "without explanation")),
        ({"message": "no way", "code": 409, "reason": "Conflict"}, (409, "Conflict", ": no way")),
        ({"reason": "Because"}, (400, "Because", ": Because")),
        ({"message": "m", "code": 200, "status": "Success"}, (400, "", ": m")),
    ],
)
async def test_a_refusal_carries_the_status_of_the_webhook(
    store: Store, admission: Admission, hooks: HookServer, kind: str, status: dict | None, expected: tuple
):
    hooks.answers["h"] = lambda _: {"allowed": False, "status": status}
    register(store, kind, "v", hooks.hook("h"))
    error = await refusal(admission, store.write(cm()))
    code, reason, text = expected
    separator = "" if text.startswith(":") else " "
    assert (error.code, error.reason) == (code, reason)
    assert error.message == f'admission webhook "h.example.com" denied the request{separator}{text}'


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            lambda _: web.Response(status=500, text="boom"),
            'failed to call webhook: an error on the server ("boom") has prevented the request from succeeding',
        ),
        (
            lambda _: web.Response(status=404),
            "failed to call webhook: the server could not find the requested resource",
        ),
        (
            lambda _: web.json_response({"apiVersion": "v1", "kind": "Status", "message": "my status"}, status=400),
            "failed to call webhook: my status",
        ),
        (lambda _: web.json_response({}), "received invalid webhook response: webhook response was absent"),
        (
            lambda _: web.json_response({"apiVersion": "v1", "kind": "Foo"}),
            'failed to call webhook: no kind "Foo" is registered for version "v1" in scheme '
            '"pkg/runtime/scheme.go:111"',
        ),
        (
            lambda _: web.Response(text="hello"),
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into "
            'Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string '
            '"json:\\"kind,omitempty\\"" }',
        ),
        (
            lambda _: patch({"op": "add", "path": "/data", "value": {}}),
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
    ],
)
async def test_a_bad_answer_fails_the_write_unless_failures_are_ignored(
    store: Store, admission: Admission, hooks: HookServer, answer, text: str
):
    hooks.answers["h"] = answer
    register(store, "validating", "v", hooks.hook("h"))
    error = await refusal(admission, store.write(cm()))
    assert (error.code, error.message) == (500, failed(text))
    register(store, "validating", "v", hooks.hook("h", failurePolicy="Ignore"))
    write = store.write(cm())
    await admission.validate(write)
    assert write.audit_annotations == {
        "failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "h.example.com"
    }


async def test_an_answer_to_another_question_does_not_count(store: Store, admission: Admission, hooks: HookServer):
    hooks.answers["h"] = lambda _: {"allowed": True, "uid": "x"}
    register(store, "validating", "v", hooks.hook("h"))
    error = await refusal(admission, store.write(cm()))
    assert 'received invalid webhook response: expected response.uid="' in error.message


async def test_a_webhook_that_is_too_slow_fails_the_write(store: Store, admission: Admission, hooks: HookServer):
    forever = asyncio.Event()
    hooks.answers["h"] = lambda _: forever.wait()
    register(store, "validating", "v", hooks.hook("h", timeoutSeconds=0.05))
    error = await refusal(admission, store.write(cm()))
    assert error.message == failed(
        f'failed to call webhook: Post "https://127.0.0.1:{hooks.port}/h?timeout=1s": context deadline exceeded'
    )


async def test_a_webhook_that_is_not_there_fails_the_write(store: Store, admission: Admission, hooks: HookServer):
    register(store, "validating", "v", hooks.hook("h"))
    await hooks.stop()
    error = await refusal(admission, store.write(cm()))
    assert error.message == failed(
        f'failed to call webhook: Post "https://127.0.0.1:{hooks.port}/h?timeout=5s": dial tcp '
        f"127.0.0.1:{hooks.port}: connect: connection refused"
    )


async def test_only_the_bundle_is_trusted(store: Store, admission: Admission, hooks: HookServer):
    config = hooks.config("h")
    hooks.authority = Authority.create("other")
    register(store, "validating", "v", hooks.hook("h"))
    error = await refusal(admission, store.write(cm()))
    assert error.message == failed(
        f'failed to call webhook: Post "{config["url"]}?timeout=5s": tls: failed to verify certificate: x509: '
        "certificate signed by unknown authority"
    )


async def test_a_bundle_of_the_server_s_own_certificate_is_trusted(
    store: Store, admission: Admission, hooks: HookServer
):
    assert hooks.own is not None
    hooks.answers["h"] = lambda _: {"allowed": True}
    config = {**hooks.config("h"), "caBundle": base64.b64encode(hooks.own.cert_pem).decode()}
    register(store, "validating", "v", hooks.hook("h", clientConfig=config))
    await admission.validate(store.write(cm()))
    assert [path for path, _ in hooks.asked] == ["h"]


async def test_the_certificate_must_be_for_the_host(store: Store, admission: Admission):
    server = HookServer()
    await server.start(hosts=["elsewhere"])
    for host, text in (
        ("localhost", "certificate is valid for elsewhere, not localhost"),
        ("127.0.0.1", "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"),
    ):
        config = {**server.config("h"), "url": f"https://{host}:{server.port}/h"}
        register(store, "validating", "v", server.hook("h", clientConfig=config))
        error = await refusal(admission, store.write(cm()))
        assert error.message.endswith(f"tls: failed to verify certificate: x509: {text}")
    await server.stop()


async def test_a_service_is_found_by_its_endpoints_or_by_the_table(
    store: Store, admission: Admission, hooks: HookServer
):
    hooks.answers["h"] = lambda _: {"allowed": True}
    service = {"namespace": "default", "name": "hook", "path": "/h"}
    config = {"service": service, "caBundle": hooks.config("h")["caBundle"]}
    register(store, "validating", "v", hooks.hook("h", clientConfig=config))
    prefix = 'failed to call webhook: Post "https://hook.default.svc:443/h?timeout=5s": '
    assert (await refusal(admission, store.write(cm()))).message == failed(f'{prefix}service "hook" not found')
    ports = [{"name": "tls", "port": 443}]
    store.put("", "services", {"metadata": {"name": "hook", "namespace": "default"}, "spec": {"ports": ports}})
    error = await refusal(admission, store.write(cm()))
    assert error.message == failed(f'{prefix}no endpoints available for service "hook"')
    endpoints = {
        "metadata": {
            "name": "hook-1",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "hook"},
        },
        "ports": [{"name": "tls", "port": hooks.port}],
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
    }
    store.put("discovery.k8s.io", "endpointslices", endpoints)
    await admission.validate(store.write(cm()))
    store.delete("discovery.k8s.io", "endpointslices", "default", "hook-1")
    admission.caller.services["default", "hook"] = ("127.0.0.1", hooks.port)
    await admission.validate(store.write(cm()))
    assert hooks.paths == ["h", "h"]


async def test_mutating_webhooks_are_asked_in_order_and_see_what_came_before(
    store: Store, admission: Admission, hooks: HookServer
):
    hooks.answers["b"] = lambda _: patch({"op": "add", "path": "/data", "value": {"b": "1"}})
    hooks.answers["a"] = lambda request: patch(
        {"op": "add", "path": "/data/a", "value": "after " + str(sorted(request["object"]["data"]))}
    )
    register(store, "mutating", "2", hooks.hook("a"))
    register(store, "mutating", "1", hooks.hook("b"))
    write = store.write(cm())
    seen: list[dict] = []
    write.normalise = seen.append
    await admission.mutate(write)
    assert write.obj == {**cm(), "data": {"b": "1", "a": "after ['b']"}}
    assert len(seen) == 2
    assert write.audit_annotations["mutation.webhook.admission.k8s.io/round_0_index_0"] == (
        '{"configuration":"1","webhook":"b.example.com","mutated":true}'
    )


async def test_who_wishes_it_is_asked_again_when_a_later_one_changes_something(
    store: Store, admission: Admission, hooks: HookServer
):
    hooks.answers["first"] = lambda _: {"allowed": True}
    hooks.answers["never"] = lambda _: {"allowed": True}
    hooks.answers["last"] = lambda _: patch({"op": "add", "path": "/data", "value": {"a": "b"}})
    again = {"reinvocationPolicy": "IfNeeded"}
    register(store, "mutating", "m", hooks.hook("first", **again), hooks.hook("never"), hooks.hook("last", **again))
    await admission.mutate(store.write(cm()))
    assert hooks.paths == ["first", "never", "last", "first"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            {"allowed": True, "patch": "W10="},
            failed("received invalid webhook response: webhook returned response.patch but not response.patchType"),
        ),
        (
            {"allowed": True, "patch": "ew==", "patchType": "JSONPatch"},
            failed("received undecodable patch in webhook response: unexpected end of JSON input"),
        ),
        (
            patch({"op": "remove", "path": "/nope"}),
            "Internal error occurred: error in remove for path: '/nope': Unable to remove nonexistent key: nope: "
            "missing value",
        ),
    ],
)
async def test_a_patch_that_does_not_apply_fails_the_write(
    store: Store, admission: Admission, hooks: HookServer, answer: dict, text: str
):
    hooks.answers["h"] = lambda _: answer
    register(store, "mutating", "m", hooks.hook("h"))
    error = await refusal(admission, store.write(cm()))
    assert (error.code, error.message) == (500, text)


async def test_what_a_patch_makes_must_be_an_object_of_its_kind(store: Store, admission: Admission, hooks: HookServer):
    hooks.answers["h"] = lambda _: patch({"op": "add", "path": "/data", "value": 5})
    register(store, "mutating", "m", hooks.hook("h"))
    write = store.write(cm())

    def refuse(_: dict) -> None:
        raise ValueError("json: cannot unmarshal number")

    write.normalise = refuse
    error = await refusal(admission, write)
    assert error.message == "Internal error occurred: json: cannot unmarshal number"


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"objectSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}, False),
        ({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}}, True),
        ({"rules": [{"operations": ["UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}, False),
        ({"rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}, True),
        (
            {
                "rules": [
                    {
                        "operations": ["*"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["*/*"],
                        "scope": "Cluster",
                    }
                ]
            },
            False,
        ),
        ({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/scale"]}]}, False),
    ],
)
async def test_rules_and_selectors_choose(
    store: Store, admission: Admission, hooks: HookServer, more: dict, asked: bool
):
    hooks.answers["h"] = lambda _: {"allowed": True}
    register(store, "validating", "v", hooks.hook("h", **more))
    await admission.validate(store.write(cm(labels={"app": "web"})))
    assert bool(hooks.asked) is asked


async def test_an_object_selector_also_sees_the_object_as_it_was(store: Store, admission: Admission, hooks: HookServer):
    hooks.answers["h"] = lambda _: {"allowed": True}
    register(store, "validating", "v", hooks.hook("h", objectSelector={"matchLabels": {"app": "web"}}))
    await admission.validate(store.write(cm(), operation="UPDATE", old=cm(labels={"app": "web"})))
    await admission.validate(store.write(None, operation="DELETE", old=cm(labels={"app": "web"})))
    assert [request["operation"] for _, request in hooks.asked] == ["UPDATE", "DELETE"]


@pytest.mark.parametrize(
    ("expression", "asked"),
    [
        ("object.metadata.name == 'c'", True),
        ("request.operation == 'DELETE'", False),
        ("oldObject == null && request.userInfo.username == 'jane'", True),
    ],
)
async def test_match_conditions_choose(
    store: Store, admission: Admission, hooks: HookServer, expression: str, asked: bool
):
    hooks.answers["h"] = lambda _: {"allowed": True}
    conditions = [{"name": "first", "expression": "true"}, {"name": "second", "expression": expression}]
    register(store, "validating", "v", hooks.hook("h", matchConditions=conditions))
    await admission.validate(store.write(cm()))
    assert bool(hooks.asked) is asked


async def test_a_condition_that_fails_refuses_the_write_unless_failures_are_ignored(
    store: Store, admission: Admission, hooks: HookServer
):
    conditions = [{"name": "a", "expression": 'object.data.x == "1"'}]
    register(store, "validating", "v", hooks.hook("h", matchConditions=conditions))
    error = await refusal(admission, store.write(cm()))
    assert (error.code, error.message) == (
        403,
        'configmaps "c" is forbidden: expression \'object.data.x == "1"\' resulted in error: no such key: data',
    )
    register(store, "validating", "v", hooks.hook("h", matchConditions=conditions, failurePolicy="Ignore"))
    await admission.validate(store.write(cm()))
    assert not hooks.asked


async def test_no_webhook_sees_webhooks(store: Store, admission: Admission, hooks: HookServer):
    anything = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]
    register(store, "validating", "v", hooks.hook("h", rules=anything))
    write = store.write(
        {"metadata": {"name": "v"}},
        group="admissionregistration.k8s.io",
        kind="ValidatingWebhookConfiguration",
        resource="validatingwebhookconfigurations",
        namespace="",
    )
    assert not admission.needs_async(write)
    await admission.validate(write)
    assert not hooks.asked


async def test_a_webhook_with_side_effects_refuses_a_dry_run(store: Store, admission: Admission, hooks: HookServer):
    hooks.answers["h"] = lambda _: {"allowed": True}
    register(store, "validating", "v", hooks.hook("h", sideEffects="Some"))
    error = await refusal(admission, store.write(cm(), dry_run=True))
    assert (error.code, error.message) == (400, 'admission webhook "h.example.com" does not support dry run')
    register(store, "validating", "v", hooks.hook("h", sideEffects="NoneOnDryRun"))
    await admission.validate(store.write(cm(), dry_run=True))
    assert hooks.asked[0][1]["dryRun"] is True


async def test_all_validating_webhooks_are_asked_and_the_first_refusal_counts(
    store: Store, admission: Admission, hooks: HookServer
):
    for name in ("a", "b", "c"):
        hooks.answers[name] = lambda request: {"allowed": False, "status": {"message": request["name"]}}
    hooks.answers["a"] = lambda _: {"allowed": True}
    register(store, "validating", "v", *(hooks.hook(name) for name in ("a", "b", "c")))
    error = await refusal(admission, store.write(cm()))
    assert error.message == 'admission webhook "b.example.com" denied the request: c'
    assert sorted(hooks.paths) == ["a", "b", "c"]


class Versions:
    """`things` in v1 and v2, which differ by the name of a field."""

    def equivalents(self, group: str, version: str, resource: str, subresource: str):
        return [Equivalent("x.io", "v1", "things", "Thing"), Equivalent("x.io", "v2", "things", "Thing")]

    def structure(self, seen: Equivalent) -> None:
        return None

    def needs_webhook(self, seen: Equivalent) -> bool:
        return False

    async def convert(self, obj: dict, seen: Equivalent) -> dict:
        return self.convert_now(obj, seen)

    def convert_now(self, obj: dict, to: Equivalent) -> dict:
        spec = obj["spec"]
        value = spec.get("old", spec.get("new"))
        field = "old" if to.version == "v1" else "new"
        return {**obj, "apiVersion": f"x.io/{to.version}", "spec": {field: value}}


async def test_a_webhook_sees_the_version_that_it_asked_for(store: Store, hooks: HookServer):
    admission = Admission(store, equivalents=Versions())
    store.admission = admission
    hooks.answers["h"] = lambda _: patch({"op": "replace", "path": "/spec/old", "value": 2})
    rules = [{"operations": ["*"], "apiGroups": ["x.io"], "apiVersions": ["v1"], "resources": ["things"]}]
    obj = {"apiVersion": "x.io/v2", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"new": 1}}
    more = {"group": "x.io", "version": "v2", "kind": "Thing", "resource": "things"}
    register(store, "mutating", "m", hooks.hook("h", rules=rules, matchPolicy="Exact"))
    assert not admission.needs_async(store.write(dict(obj), **more))
    register(store, "mutating", "m", hooks.hook("h", rules=rules))
    write = store.write(dict(obj), **more)
    await admission.mutate(write)
    [(_, request)] = hooks.asked
    assert request["object"]["spec"] == {"old": 1}
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
    assert write.obj is not None
    assert write.obj["spec"] == {"new": 2}
    await admission.close()
