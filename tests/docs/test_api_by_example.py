"""Short uses of public names that no page and no example uses; the reference of the API shows them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest

from steersman import (
    GVK,
    Context,
    Debounce,
    DecodeError,
    Format,
    Gt,
    Key,
    LabelSelector,
    LabelSelectorRequirement,
    Lt,
    MaxProperties,
    MicroTime,
    Model,
    MultipleOf,
    NotLeaderError,
    ObjectMeta,
    Operator,
    Request,
    Resource,
    Settings,
    StrategicMergePatch,
    UndecodableError,
    View,
    Watch,
    load_config,
    load_settings,
    metadata_of,
    owner_reference,
    parse_labels,
    to_annotation,
    to_controller,
    to_owner,
)
from steersman.client import (
    ApiResource,
    FieldValidation,
    NotAcceptable,
    Page,
    Propagation,
    RequestTooLarge,
    ScaleState,
    ServerVersion,
    Status,
    StatusCause,
    StatusDetails,
    Token,
    UpgradeRefusedError,
    WatchEvent,
)
from steersman.k8s import ConfigMap, Deployment, Job, Pod
from steersman.logs import Logger, get_logger
from steersman.manifests import Changes, compare, config_files, schema_of
from steersman.models.selectors import from_label_selector
from steersman.predicates import (
    Predicate,
    PredicateLike,
    generation_changed,
    labels_changed,
    resource_version_changed,
)
from steersman.testing import Audit, Reconcile, Recorder, call_of, eventually, recorded, round_trip
from steersman.testing.explore import (
    DEFAULT_PERTURB,
    FAULT_KINDS,
    ORACLES,
    PERTURBATIONS,
    Finding,
    RunOptions,
    thorough,
)
from steersman.testing.faults import expired_watch, failing_webhook, gone, refused, stale_reads, stalled_watch


class KilnSpec(Model):
    celsius: Annotated[float, Gt(-273.15), Lt(2000.0), Format("double")] = 900.0
    minutes: Annotated[int, MultipleOf(5)] = 30
    glazes: Annotated[Mapping[str, str], MaxProperties(8)] = {}


class Kiln(Resource, group="docs.steersman.dev", version="v1"):
    spec: KilnSpec = KilnSpec()


class OldKiln(Resource, group="docs.steersman.dev", version="v1alpha1", kind="Kiln", storage=False):
    spec: KilnSpec = KilnSpec()


kilns = Operator("kilns")
kilns.permit("patch", Kiln)


@kilns.controller(
    debounce=Debounce(quiet=0.2, max_wait=2.0),
    owns=[Job],
    watches=[
        Watch(Pod, to=to_controller(Kiln)),
        Watch(Deployment, to=to_owner(Kiln)),
        Watch(ConfigMap, to=to_annotation("docs.steersman.dev/kiln")),
    ],
)
async def fire(kiln: Kiln, ctx: Context) -> None:
    if "fired" not in kiln.metadata.labels:
        await ctx.patch(kiln, StrategicMergePatch({"metadata": {"labels": {"fired": "yes"}}}))


@kilns.converter
async def upgrade(old: OldKiln) -> Kiln:
    return Kiln(metadata=old.metadata, spec=old.spec)


@kilns.converter
async def downgrade(new: Kiln) -> OldKiln:
    return OldKiln(metadata=new.metadata, spec=new.spec)


def test_markers_become_constraints() -> None:
    spec = schema_of(Kiln)["properties"]["spec"]["properties"]
    assert spec["celsius"]["exclusiveMinimum"]
    assert spec["minutes"]["multipleOf"] == 5
    assert spec["glazes"]["maxProperties"] == 8


def test_values_of_the_api() -> None:
    kind = GVK("apps", "v1", "Deployment")
    assert kind.group == "apps"
    at = MicroTime(2030, 1, 1, 12, 0, tzinfo=UTC)
    assert at == datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
    names_only: View[Any] = metadata_of(ConfigMap)
    assert names_only.form == "metadata"


def test_selectors() -> None:
    rule = LabelSelectorRequirement(key="tier", operator="In", values=("web", "api"))
    selector = LabelSelector(match_labels={"app": "shop"}, match_expressions=(rule,))
    labels = {"app": "shop", "tier": "web"}
    assert from_label_selector(selector).matches(labels)
    assert parse_labels("app=shop,tier in (web,api),!old").matches(labels)


def test_owner_references() -> None:
    owner = ConfigMap(metadata=ObjectMeta(name="settings", uid="7a0f"))
    assert owner_reference(owner).uid == "7a0f"


def test_a_request_has_its_reasons() -> None:
    request = Request(Key("default", "web"), reasons=("update",), attempt=2)
    assert request.attempt == 2


def test_settings_come_from_options_and_variables(tmp_path: Path) -> None:
    settings: Settings = load_settings({"workers": 4}, environ={"STEERSMAN_LEASE_NAME": "shop"})
    assert (settings.workers, settings.lease_name) == (4, "shop")


def test_errors_have_clear_messages() -> None:
    assert str(DecodeError("expected an integer", "$.spec.size")) == "$.spec.size: expected an integer"
    broken = UndecodableError("Kiln", Key("default", "old"), "7", "expected an integer", "$.spec.minutes")
    assert broken.key.name == "old"
    assert issubclass(NotLeaderError, Exception)
    cause = StatusCause(reason="FieldValueInvalid", message="must be positive", field="spec.size")
    status = Status(code=406, reason="NotAcceptable", message="only JSON", details=StatusDetails(causes=(cause,)))
    assert NotAcceptable(status, "GET /api").causes == (cause,)
    too_large = RequestTooLarge(Status(code=413, reason="RequestEntityTooLarge", message="limit is 3145728"))
    assert "Split the object" in str(too_large)
    upgrade_refused = UpgradeRefusedError("exec: 403 Forbidden", status=403, body=b"no")
    assert upgrade_refused.status == 403


def test_predicates_combine() -> None:
    either: Predicate = generation_changed | labels_changed
    everything_but_resyncs: Predicate = resource_version_changed & ~either
    large: PredicateLike = lambda kiln: kiln.spec.minutes > 60  # noqa: E731
    assert everything_but_resyncs != either
    assert callable(large)


def test_a_logger_has_events(caplog: pytest.LogCaptureFixture) -> None:
    log: Logger = get_logger("kilns")
    with caplog.at_level(logging.INFO):
        log.info("kiln_opened", kiln="north")


def test_manifests_are_compared(tmp_path: Path) -> None:
    files = config_files(kilns)
    changes: Changes = compare(files, tmp_path)
    assert set(changes.new) == set(files)


async def test_the_client_reads_and_writes(cluster: Any) -> None:
    async with cluster.client() as client:
        version: ServerVersion = await client.server_version()
        assert version.git_version.startswith("v1.")
        resources: tuple[ApiResource, ...] = await client.discover("apps/v1")
        assert "deployments" in {resource.name for resource in resources}
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=cluster.namespace)))
        page: Page[ConfigMap] = await client.list(ConfigMap, namespace=cluster.namespace, limit=1)
        assert len(page.items) == 1
        token: Token = await client.create_token("default", namespace=cluster.namespace)
        assert token.token
        propagation: Propagation = "Foreground"
        await client.delete(ConfigMap, "a", namespace=cluster.namespace, propagation=propagation)
        strict: FieldValidation = "Strict"
        await client.create(
            ConfigMap(metadata=ObjectMeta(name="b", namespace=cluster.namespace)), field_validation=strict
        )


async def test_a_watch_yields_events(cluster: Any) -> None:
    async with cluster.client() as client:
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=cluster.namespace)))
        async for event in client.watch(ConfigMap, namespace=cluster.namespace):
            first: WatchEvent[ConfigMap] = event
            assert first.type == "ADDED"
            break


async def test_a_scale_is_read(cluster: Any) -> None:
    cluster.apply("""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          replicas: 2
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec: {containers: [{name: web, image: web}]}
    """)
    async with cluster.client() as client:
        scale: ScaleState = await client.get_scale(Deployment, "web", namespace=cluster.namespace)
        assert scale.replicas == 2


def test_a_kubeconfig_is_loaded(cluster: Any) -> None:
    config = load_config(cluster.kubeconfig)
    assert config.server.startswith("https://127.0.0.1")


def test_an_audit_shows_the_calls(cluster: Any, operator: Any) -> None:
    running = operator(copies)
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: source}}")
    cluster.wait("configmap", "copy", "created")
    audit: Audit = cluster.audit
    assert "patch configmaps/copy" in [call_of(event) for event in audit.calls(user=running.user)]


copies = Operator("copies")


@copies.controller(owns=[ConfigMap], where=lambda found: found.metadata.name == "source")
async def copy(source: ConfigMap, ctx: Context) -> None:
    if source.metadata.name == "source":
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="copy"), data=source.data))


def test_an_operator_reports_to_a_recorder(cluster: Any, operator: Any) -> None:
    recorder = Recorder()
    operator(recorded(copies, recorder))
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: source}}")
    cluster.wait("configmap", "copy", "created")
    first: Reconcile = eventually(lambda: recorder.reconciles, what="a reconcile")[0]
    assert first.error is None


def test_watches_that_break_are_started_again(cluster: Any, operator: Any, faults: Any) -> None:
    faults.add(expired_watch(0.1, resource="configmaps", times=1), stalled_watch(0.1, resource="secrets", times=1))
    faults.add(gone(resource="configmaps", verb="list", times=1), refused(resource="secrets"))
    faults.add(failing_webhook(resource="configmaps", verb="patch", times=1), stale_reads(0.1, resource="secrets"))
    operator(copies)
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: source}}")
    cluster.wait("configmap", "copy", "created")


def test_a_conversion_and_back_loses_nothing() -> None:
    old = OldKiln(metadata=ObjectMeta(name="north"), spec=KilnSpec(minutes=45))
    there, back = round_trip(kilns, old, Kiln)
    assert there["spec"] == back["spec"]


def test_words_of_the_explorer() -> None:
    assert set(DEFAULT_PERTURB) <= set(PERTURBATIONS)
    assert {kind for kinds in PERTURBATIONS.values() for kind in kinds} <= set(FAULT_KINDS)
    assert Finding("leak", "ConfigMap default/a remains").oracle in ORACLES
    assert RunOptions(stabilization=5.0).stabilization == 5.0
    assert thorough() in (True, False)
