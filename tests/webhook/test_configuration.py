"""Webhook configurations: the objects of a declaration, and the errors before a server receives them."""

import base64

import pytest

from steersman import Admission, MatchCondition, Model, Operator, Resource, WebhookOptions
from steersman.k8s import Deployment, Pod
from steersman.operator import DeclarationError
from steersman.webhook import ClientConfig, configurations


class CaskSpec(Model):
    litres: int = 1


class Cask(Resource, group="cellar.example.com", version="v1beta1"):
    spec: CaskSpec = CaskSpec()


SERVICE = ClientConfig(service=("cellar-system", "cellar-webhook", 443), ca_bundle=b"PEM")


def cellar(options=None):
    operator = Operator("cellar")

    @operator.defaulter
    async def fill(obj: Cask) -> None: ...

    @operator.validator(on=("create", "update", "delete"))
    async def check(new: Cask, old: Cask | None, ctx: Admission) -> None: ...

    @operator.mutator(on="create", options=options or WebhookOptions())
    async def inject(pod: Pod) -> None: ...

    return operator


def made(operator, config=SERVICE):
    return configurations(operator.webhook_rules, name=operator.name, client_config=config)


def test_an_operator_has_one_configuration_of_each_sort():
    mutating, validating = made(cellar())
    assert (mutating["kind"], mutating["metadata"]["name"]) == ("MutatingWebhookConfiguration", "cellar-mutating")
    assert (validating["kind"], validating["metadata"]["name"]) == (
        "ValidatingWebhookConfiguration",
        "cellar-validating",
    )
    assert [w["name"] for w in mutating["webhooks"]] == ["mpod-v1.core.k8s.io", "mcask-v1beta1.cellar.example.com"]
    assert validating["webhooks"] == [
        {
            "name": "vcask-v1beta1.cellar.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {
                    "namespace": "cellar-system",
                    "name": "cellar-webhook",
                    "path": "/validate-cellar-example-com-v1beta1-cask",
                    "port": 443,
                },
                "caBundle": base64.b64encode(b"PEM").decode(),
            },
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "rules": [
                {
                    "apiGroups": ["cellar.example.com"],
                    "apiVersions": ["v1beta1"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["casks"],
                    "scope": "*",
                }
            ],
        }
    ]


def test_the_same_declarations_make_the_same_configurations():
    assert made(cellar()) == made(cellar())


def test_options_stand_where_the_api_has_them():
    options = WebhookOptions(
        failure_policy="Ignore",
        match_policy="Exact",
        side_effects="NoneOnDryRun",
        timeout=3,
        namespace_selector={"matchLabels": {"inject": "yes"}},
        object_selector={"matchLabels": {"app": "web"}},
        match_conditions=[MatchCondition("mine", "object.metadata.name == 'x'")],
        reinvocation="IfNeeded",
        scope="Namespaced",
    )
    [webhook] = [w for w in made(cellar(options))[0]["webhooks"] if w["name"].startswith("mpod")]
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["matchPolicy"] == "Exact"
    assert webhook["sideEffects"] == "NoneOnDryRun"
    assert webhook["timeoutSeconds"] == 3
    assert webhook["namespaceSelector"] == {"matchLabels": {"inject": "yes"}}
    assert webhook["objectSelector"] == {"matchLabels": {"app": "web"}}
    assert webhook["matchConditions"] == [{"name": "mine", "expression": "object.metadata.name == 'x'"}]
    assert webhook["reinvocationPolicy"] == "IfNeeded"
    assert webhook["rules"][0]["scope"] == "Namespaced"


def test_sub_resources_have_a_path_of_their_own():
    operator = Operator("scaler")

    @operator.validator(options=WebhookOptions(subresources=("status",)))
    async def watch(new: Deployment) -> None: ...

    [validating] = made(operator, ClientConfig(url="https://127.0.0.1:9443/"))
    [webhook] = validating["webhooks"]
    assert webhook["rules"][0]["resources"] == ["deployments/status"]
    assert webhook["name"] == "vdeployment-v1-status.apps.k8s.io"
    assert webhook["clientConfig"] == {"url": "https://127.0.0.1:9443/validate-apps-v1-deployment-status"}


def test_nothing_declared_makes_no_configuration():
    assert made(Operator("empty")) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (WebhookOptions(timeout=0), "timeout=0: must be from 1 to 30 seconds"),
        (WebhookOptions(timeout=31), "timeout=31: must be from 1 to 30 seconds"),
        (
            WebhookOptions(match_conditions=[MatchCondition("a", "true"), MatchCondition("a", "false")]),
            "two conditions have the same name",
        ),
    ],
)
def test_options_that_no_server_takes_are_refused_where_they_are_written(options, words):
    with pytest.raises(DeclarationError, match=words):
        cellar(options)


def test_what_is_told_of_a_wrong_declaration_names_the_function():
    operator = Operator("wrong")
    with pytest.raises(DeclarationError, match="a deleted object cannot be changed"):

        @operator.mutator(on="delete")
        async def late(pod: Pod) -> None: ...

    with pytest.raises(DeclarationError, match="on='destroy': operations are connect, create, delete, update"):

        @operator.validator(on="destroy")
        async def odd(pod: Pod) -> None: ...

    with pytest.raises(DeclarationError, match="reinvocation= applies to mutating webhooks only"):

        @operator.validator(options=WebhookOptions(reinvocation="IfNeeded"))
        async def again(pod: Pod) -> None: ...

    @operator.validator
    async def first(pod: Pod) -> None: ...

    with pytest.raises(DeclarationError, match=r"/validate--v1-pod is already declared at .*give this one a name="):

        @operator.validator
        async def second(pod: Pod) -> None: ...


def test_two_webhooks_of_one_kind_are_told_apart_by_name():
    operator = Operator("two")

    @operator.mutator(on="create")
    async def first(pod: Pod) -> None: ...

    @operator.mutator(on="create", name="second")
    async def second(pod: Pod) -> None: ...

    [mutating] = made(operator)
    assert [w["name"] for w in mutating["webhooks"]] == ["mpod-v1.core.k8s.io", "mpod-v1-second.core.k8s.io"]
    assert [w["clientConfig"]["service"]["path"] for w in mutating["webhooks"]] == [
        "/mutate--v1-pod",
        "/mutate--v1-pod-second",
    ]
