"""Bundles and catalogs: their content, and that the checks agree with operator-verify and opm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from steersman import Context, Operator
from steersman.manifests import Package, crds, write
from steersman.manifests.olm import BUNDLE_FOLDERS, Listing, bundle_files, catalog_text, read_bundle, validate
from steersman.manifests.samples import sample
from steersman_cluster.crd.schema_validation import compile_check
from tests.manifests import broad, shipped_app
from tests.manifests.test_packaging import PACKAGE, tool

LISTING = Listing(
    provider="The widget makers",
    maintainers=(("Widget makers", "widgets@example.com"),),
    links=(("Home", "https://example.com"),),
    keywords=("widget",),
    categories=("Database",),
    channels=("alpha", "stable"),
    icon=("PHN2Zy8+", "image/svg+xml"),
    related_images=(("widget", "registry.example.com/widget:1"),),
)
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    write(bundle_files(PACKAGE, LISTING), tmp_path, BUNDLE_FOLDERS)
    return tmp_path


def csv_of(bundle: Path) -> dict[str, Any]:
    return yaml.safe_load((bundle / "manifests/widgets.clusterserviceversion.yaml").read_text())


def verified(bundle: Path) -> list[str]:
    """The errors of operator-verify, with the checks that are made for OperatorHub."""
    words = [tool("operator-verify"), "manifests", "--operatorhub_validate", str(bundle)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return [line for line in said.stderr.splitlines() if "level=error" in line or "level=fatal" in line]


def test_a_bundle_is_valid_for_us_and_for_operator_verify(bundle: Path) -> None:
    assert validate(read_bundle(bundle)) == []
    assert verified(bundle) == []


def test_what_olm_does_itself_is_not_in_the_bundle(bundle: Path) -> None:
    kinds = {one.get("kind") for one in read_bundle(bundle).objects}
    assert kinds == {"ClusterServiceVersion", "CustomResourceDefinition", "ClusterRole", "Service"}
    spec = csv_of(bundle)["spec"]
    assert [(w["type"], w["webhookPath"]) for w in spec["webhookdefinitions"]] == [
        ("MutatingAdmissionWebhook", "/mutate--v1-pod"),
        ("MutatingAdmissionWebhook", "/mutate-pkg-example-com-v2-widget"),
        ("ValidatingAdmissionWebhook", "/validate-pkg-example-com-v2-widget"),
        ("ConversionWebhook", "/convert"),
    ]
    permissions = spec["install"]["spec"]
    namespaced = {r for rule in permissions["permissions"][0]["rules"] for r in rule["resources"]}
    wide = {r for rule in permissions["clusterPermissions"][0]["rules"] for r in rule["resources"]}
    assert {"deployments", "leases", "widgets"} <= namespaced
    assert {"fleets", "subjectaccessreviews"} <= wide
    assert "secrets" not in namespaced  # certificates are OLM's


def test_webhooks_of_built_in_kinds_leave_the_operators_own_pods_out(bundle: Path) -> None:
    """OLM creates the webhooks before a replica serves them; a refused Pod of the operator would never serve them."""
    spec = csv_of(bundle)["spec"]
    selectors = {w.get("webhookPath"): w.get("objectSelector") for w in spec["webhookdefinitions"]}
    own = spec["install"]["spec"]["deployments"][0]["spec"]["template"]["metadata"]["labels"]
    (expression,) = selectors.pop("/mutate--v1-pod")["matchExpressions"]
    assert expression["operator"] == "NotIn"
    assert own[expression["key"]] in expression["values"]
    assert set(selectors.values()) == {None}


def test_only_operators_without_conversions_may_be_installed_for_some_namespaces(bundle: Path) -> None:
    def modes(spec: dict[str, Any]) -> list[str]:
        return [mode["type"] for mode in spec["installModes"] if mode["supported"]]

    assert modes(csv_of(bundle)["spec"]) == ["AllNamespaces"]
    operator = Operator("plain")

    @operator.controller
    async def reconcile(obj: shipped_app.Fleet, ctx: Context) -> None: ...

    files = bundle_files(Package(operator, "plain:operator"), LISTING)
    plain = yaml.safe_load(files["manifests/plain.clusterserviceversion.yaml"])["spec"]
    assert len(modes(plain)) == 4
    container = plain["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]
    assert container["env"][-1]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.annotations['olm.targetNamespaces']"


def spec(**changes: Any) -> Change:
    return lambda csv: csv["spec"].update(changes)


def annotations(**changes: Any) -> Change:
    return lambda csv: csv["metadata"]["annotations"].update(changes)


BROKEN: dict[str, tuple[Change, str]] = {
    "a name that is no name": (lambda csv: csv["metadata"].update(name="Widgets_1"), "metadata.name"),
    "no install modes": (spec(installModes=[]), "install modes not found"),
    "no mode supported": (
        spec(installModes=[{"type": "OwnNamespace", "supported": False}]),
        "none of InstallModeTypes",
    ),
    "conversion for some namespaces": (
        spec(installModes=[{"type": "OwnNamespace", "supported": True}]),
        "only AllNamespaces InstallModeType",
    ),
    "a wrong minimum version": (spec(minKubeVersion="1.29"), "MinKubeVersion has an invalid value: 1.29"),
    "examples that are not JSON": (annotations(**{"alm-examples": "[{"}), "invalid example"),
    "an example of nothing": (
        annotations(**{"alm-examples": '[{"apiVersion": "x/v1", "kind": "Y"}]'}),
        "example must have a provided API",
    ),
    "a kind that is not in the bundle": (
        lambda csv: csv["spec"]["customresourcedefinitions"]["owned"][0].update(kind="Gone"),
        "not found in bundle",
    ),
    "no display name": (lambda csv: csv["spec"].pop("displayName"), "Spec.DisplayName"),
    "no strategy": (lambda csv: csv["spec"]["install"].pop("strategy"), "required field missing"),
    "an image without a name": (spec(relatedImages=[{"name": "x", "image": ""}]), "empty image field"),
    "an image that is none": (spec(relatedImages=[{"name": "x", "image": "A B"}]), "invalid image pullspec"),
    "no provider": (lambda csv: csv["spec"].pop("provider"), "Provider.Name not specified"),
    "a maintainer without address": (spec(maintainers=[{"name": "x"}]), "both name and email"),
    "an address that is none": (spec(maintainers=[{"name": "x", "email": "x y"}]), "email x y is invalid"),
    "a link without URL": (spec(links=[{"name": "x"}]), "both name and url"),
    "a link that is none": (spec(links=[{"name": "x", "url": "x"}]), "url x is invalid"),
    "no version": (lambda csv: csv["spec"].pop("version"), "Version must be set"),
    "two icons": (spec(icon=[{"base64data": "eA==", "mediatype": "image/png"}] * 2), "only have one element"),
    "an icon of no kind": (spec(icon=[{"base64data": "eA==", "mediatype": "image/x"}]), "valid mediatype"),
    "an icon without data": (spec(icon=[{"mediatype": "image/png"}]), "both data and mediatype"),
    "a capability that is none": (annotations(capabilities="All of them"), "not a valid capabilities level"),
    "a category that is none": (annotations(categories="Toys"), "not in the set of standard categories"),
    "an annotation in the wrong case": (annotations(**{"olm.skiprange": "<1"}), "uses wrong case"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_bundles_are_refused_by_us_and_by_operator_verify(case: str, bundle: Path) -> None:
    change, words = BROKEN[case]
    csv = csv_of(bundle)
    change(csv)
    (bundle / "manifests/widgets.clusterserviceversion.yaml").write_text(yaml.safe_dump(csv))
    errors = [one.text for one in validate(read_bundle(bundle)) if one.level == "Error"]
    assert any(words in text for text in errors), errors
    assert verified(bundle)


def test_a_service_account_that_olm_makes_is_refused(bundle: Path) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "widgets"}}
    (bundle / "manifests/account.yaml").write_text(yaml.safe_dump(account))
    assert any("invalid service account" in one.text for one in validate(read_bundle(bundle)))
    assert verified(bundle)


def test_a_definition_that_nobody_owns_is_refused(bundle: Path) -> None:
    csv = csv_of(bundle)
    owned = csv["spec"]["customresourcedefinitions"]
    owned["owned"] = [one for one in owned["owned"] if one["kind"] != "Fleet"]
    (bundle / "manifests/widgets.clusterserviceversion.yaml").write_text(yaml.safe_dump(csv))
    assert any("present in bundle" in one.text and "Fleet" in one.text for one in validate(read_bundle(bundle)))
    assert verified(bundle)


@pytest.mark.parametrize("broken", ["[", "- 1\n", "kind: X\n--- [\n"])
def test_files_that_are_no_manifests_are_errors_with_their_names(broken: str, bundle: Path) -> None:
    (bundle / "manifests/broken.yaml").write_text(broken)
    with pytest.raises(ValueError, match=r"broken\.yaml"):
        read_bundle(bundle)


@pytest.mark.parametrize("wrong", [1, "x", [1], {"a": 1}])
@pytest.mark.parametrize("key", ["installModes", "install", "customresourcedefinitions", "links", "icon", "provider"])
def test_fields_of_a_wrong_type_are_findings_and_no_tracebacks(key: str, wrong: Any, bundle: Path) -> None:
    csv = csv_of(bundle)
    csv["spec"][key] = wrong
    (bundle / "manifests/widgets.clusterserviceversion.yaml").write_text(yaml.safe_dump(csv))
    assert any(one.level == "Error" for one in validate(read_bundle(bundle)))


def test_opm_takes_the_catalog(tmp_path: Path) -> None:
    opm = tool("opm")
    (tmp_path / "catalog.yaml").write_text(catalog_text(PACKAGE, LISTING, "registry.example.com/widgets-bundle:v0.1.0"))
    words = [opm, "validate", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_catalog_offers_the_bundle_in_its_channels() -> None:
    image = "registry.example.com/widgets-bundle:v0.1.0"
    package, alpha, stable, one = yaml.safe_load_all(catalog_text(PACKAGE, LISTING, image))
    assert package["defaultChannel"] == alpha["name"] == "alpha"
    assert [entry["name"] for entry in stable["entries"]] == [one["name"]] == ["widgets.v0.1.0"]
    assert one["image"] == image
    kinds = [p["value"]["kind"] for p in one["properties"] if p["type"] == "olm.gvk"]
    assert sorted(kinds) == ["Fleet", "Widget", "Widget"]


def test_bundles_are_the_same_byte_for_byte() -> None:
    assert bundle_files(PACKAGE, LISTING) == bundle_files(replace(PACKAGE), LISTING)


def test_written_examples_are_used_before_made_ones() -> None:
    mine = {"apiVersion": "pkg.example.com/v2", "kind": "Widget", "metadata": {"name": "mine"}, "spec": {"image": "i"}}
    files = bundle_files(PACKAGE, LISTING, [mine])
    csv = yaml.safe_load(files["manifests/widgets.clusterserviceversion.yaml"])
    assert mine in json.loads(csv["metadata"]["annotations"]["alm-examples"])


def test_made_examples_are_objects_that_the_schema_takes() -> None:
    for crd in (*crds([broad.Broad]), *crds(shipped_app.operator)):
        for version in crd["spec"]["versions"]:
            check = compile_check(version["schema"]["openAPIV3Schema"])
            assert check(sample(crd, version["name"]))
