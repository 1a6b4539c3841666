"""The checks of OperatorHub and OLM's tools for a bundle, offline: the default validators and operatorhubv2.

The texts are those of operator-verify, so that users find their documentation. The caller passes the check of schemas.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parseaddr
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

import yaml

from steersman import documents
from steersman.manifests.crd import Check
from steersman.manifests.olm.csv import CAPABILITIES

__all__ = ["Bundle", "Finding", "read_bundle", "validate"]

_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*))*)?(\+[\da-zA-Z-]+(\.[\da-zA-Z-]+)*)?"
)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_IMAGE: Final = re.compile(
    r"([a-zA-Z0-9.-]+(:\d+)?/)?[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*"
    r"(:\w[\w.-]{0,127})?(@[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{32,})?"
)
_ICONS: Final = ("image/gif", "image/jpeg", "image/png", "image/svg+xml")
_MAX_BUNDLE_BYTES: Final = 1 << 20
_CASED: Final = {
    name.lower(): name
    for name in (
        "olm.operatorGroup",
        "olm.operatorNamespace",
        "olm.targetNamespaces",
        "olm.providedAPIs",
        "olm.skipRange",
    )
}
CATEGORIES: Final = (
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Database",
    "Developer Tools",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "Observability",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
)
_MIN_KUBE: Final = (
    "csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. "
    "Otherwise, it would mean that your operator project can be distributed and installed in any cluster version "
    "available, which is not necessarily the case for all projects."
)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """An error or warning about a bundle."""

    level: Literal["Error", "Warning"]
    text: str

    def __str__(self) -> str:
        return f"{self.level}: {self.text}"


@dataclass(frozen=True, slots=True)
class Bundle:
    """The content of a bundle's directory."""

    csv: Mapping[str, Any]
    crds: tuple[Mapping[str, Any], ...]
    objects: tuple[Mapping[str, Any], ...]
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    size: int = 0
    """The size of the manifests as a compressed archive, in bytes."""


def read_bundle(directory: Path) -> Bundle:
    """Read a bundle. Raises `OSError`, and `ValueError` for a directory that is not a bundle."""
    folder = directory / "manifests"
    if not folder.is_dir():
        raise ValueError(f"{directory}: not a bundle, there is no directory manifests/ in it")
    objects: list[dict[str, Any]] = []
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in sorted(folder.iterdir()):
            if path.suffix in (".yaml", ".yml", ".json"):
                objects += _documents(path)
                tar.add(path, path.name)
    versions = [one for one in objects if one.get("kind") == "ClusterServiceVersion"]
    if len(versions) != 1:
        raise ValueError(f"{folder}: one ClusterServiceVersion is expected, there are {len(versions)}")
    file = directory / "metadata" / "annotations.yaml"
    read = _documents(file) if file.exists() else []
    annotations = read[0].get("annotations") if read else None
    if not isinstance(annotations, dict):
        raise ValueError(f"{file}: not there, or without annotations")
    crds = tuple(one for one in objects if one.get("kind") == "CustomResourceDefinition")
    size = len(gzip.compress(archive.getvalue(), mtime=0))
    return Bundle(versions[0], crds, tuple(objects), cast("dict[str, str]", annotations), size)


def _documents(path: Path) -> list[dict[str, Any]]:
    try:
        found = [one.value for one in documents.load_all(path.read_text(encoding="utf-8")) if one.value is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as wrong:
        raise ValueError(f"{path}: not YAML: {' '.join(str(wrong).split())}") from None
    if not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{path}: a manifest is a mapping with apiVersion and kind")
    return cast("list[dict[str, Any]]", found)


def validate(bundle: Bundle, *, check: Check | None = None) -> list[Finding]:
    """Return all findings, errors first. Invalid content of a bundle never raises."""
    found: set[Finding] = set()
    for check_function in (
        _version,
        _install_modes,
        _examples,
        _required,
        _definitions,
        _images,
        _size,
        _hub,
        _level,
        _metadata,
    ):
        try:
            found.update(check_function(bundle))
        except (AttributeError, KeyError, TypeError, IndexError, ValueError) as wrong:
            found.add(Finding("Error", f"a field has a wrong type ({check_function.__name__.strip('_')}: {wrong})"))
    if check is not None:
        for crd in bundle.crds:
            name = _of(crd, "metadata").get("name")
            try:
                found.update(_error(f"{name}: {path}: {text}") for path, text in check(crd))
            except (AttributeError, KeyError, TypeError, IndexError, ValueError) as wrong:
                found.add(_error(f"{name}: a field is missing or has a wrong type: {wrong}"))
    return sorted(found)


def _error(text: str) -> Finding:
    return Finding("Error", text)


def _warning(text: str) -> Finding:
    return Finding("Warning", text)


def _of(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value.get(key) or {})


def _list(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return cast("list[Mapping[str, Any]]", value.get(key) or [])


def _name(bundle: Bundle) -> str:
    return str(_of(bundle.csv, "metadata").get("name") or "")


def _version(bundle: Bundle) -> Iterable[Finding]:
    name, spec = _name(bundle), _of(bundle.csv, "spec")
    for place, value in (("metadata.name", name), ("spec.replaces", str(spec.get("replaces") or ""))):
        if (value or place == "metadata.name") and (_NAME.fullmatch(value) is None or len(value) > 63):
            yield _error(f'({name}) {place} "{value}" is invalid')
    least = str(spec.get("minKubeVersion") or "")
    if not least.strip():
        yield _warning(f"({name}) {_MIN_KUBE}")
    elif _SEMVER.fullmatch(least) is None:
        yield _error(f"({name}) csv.Spec.MinKubeVersion has an invalid value: {least}")
    for key in _of(_of(bundle.csv, "metadata"), "annotations"):
        right = _CASED.get(key.lower())
        if right is not None and key != right:
            yield _error(f"provided annotation {key} uses wrong case and should be {right} instead")
        if key == "olm.properties":
            yield _warning(
                f"found {key} annotation, please define these properties in metadata/properties.yaml instead"
            )


def _install_modes(bundle: Bundle) -> Iterable[Finding]:
    name, spec = _name(bundle), _of(bundle.csv, "spec")
    modes = _list(spec, "installModes")
    if not modes:
        yield _error(f"({name}) install modes not found")
        return
    if not any(mode.get("supported") for mode in modes):
        yield _error(f"({name}) none of InstallModeTypes are supported")
    converts = any(webhook.get("conversionCRDs") for webhook in _list(spec, "webhookdefinitions"))
    wrong = any(bool(mode.get("supported")) != (mode.get("type") == "AllNamespaces") for mode in modes)
    if converts and wrong:
        yield _error(f"({name}) only AllNamespaces InstallModeType is supported when conversionCRDs is present")


def _provided(bundle: Bundle) -> set[tuple[str, str, str]]:
    owned = _list(_of(_of(bundle.csv, "spec"), "customresourcedefinitions"), "owned")
    return {(str(one["name"]).partition(".")[2], str(one["version"]), str(one["kind"])) for one in owned}


def _shown(key: tuple[str, str, str]) -> str:
    group, version, kind = key
    return f"{group}/{version}, Kind={kind}"


def _examples(bundle: Bundle) -> Iterable[Finding]:
    name = _name(bundle)
    annotations = _of(_of(bundle.csv, "metadata"), "annotations")
    if not annotations:
        yield _warning(f"({name}) annotations not found")
        return
    text = annotations.get("alm-examples", annotations.get("olm.examples"))
    if text is None:
        yield _warning(f"({name}) example annotations not found")
        return
    if "alm-examples" in annotations and "olm.examples" in annotations:
        yield _warning(f"({name}) both `alm-examples` and `olm.examples` are present. Checking only `alm-examples`")
    try:
        examples: Any = json.loads(text) if text else []
    except ValueError as wrong:
        yield _error(f"invalid example: {wrong}")
        return
    if not isinstance(examples, list) or not all(isinstance(one, dict) for one in cast("list[Any]", examples)):
        yield _error("error decoding example CustomResource: a list is expected")
        return
    given: set[tuple[str, str, str]] = set()
    for one in cast("list[dict[str, Any]]", examples):
        group, _, version = str(one.get("apiVersion", "")).rpartition("/")
        given.add((group, version, str(one.get("kind", ""))))
    provided = _provided(bundle)
    for key in given - provided:
        yield _error(f"Value {_shown(key)}: example must have a provided API")
    for key in provided - given:
        yield _warning(f"Value {_shown(key)}: provided API should have an example annotation")


def _required(bundle: Bundle) -> Iterable[Finding]:
    spec = _of(bundle.csv, "spec")
    strategy = _of(spec, "install")
    for place, holder, key in (
        ("ObjectMeta", bundle.csv, "metadata"),
        ("Spec", bundle.csv, "spec"),
        ("Spec.DisplayName", spec, "displayName"),
        ("Spec.InstallStrategy", spec, "install"),
        ("Spec.InstallStrategy.StrategyName", strategy, "strategy"),
        ("Spec.InstallStrategy.StrategySpec.DeploymentSpecs", _of(strategy, "spec"), "deployments"),
    ):
        if not holder.get(key):
            yield _error(f"Field {place}: required field missing")
    for key in ("apiVersion", "kind"):
        if not bundle.csv.get(key):
            yield _error(f"({_name(bundle)}) '{key}' is missing")


def _definitions(bundle: Bundle) -> Iterable[Finding]:
    there: set[tuple[str, str, str]] = set()
    for crd in bundle.crds:
        spec = crd["spec"]
        for version in spec["versions"]:
            key = (str(spec["group"]), str(version["name"]), str(spec["names"]["kind"]))
            if key in there:
                yield _error(f'duplicate CRD "{_shown(key)}" in bundle "{_name(bundle)}"')
            there.add(key)
    provided = _provided(bundle)
    for key in provided - there:
        yield _error(f'Value {_shown(key)}: owned CRD "{_shown(key)}" not found in bundle "{_name(bundle)}"')
    known = {(group, kind) for group, _, kind in provided & there}
    for key in there - provided:
        if (key[0], key[2]) not in known:
            text = f'CRD "{_shown(key)}" is present in bundle "{_name(bundle)}" but not defined in CSV'
            yield _error(f"Value {_shown(key)}: {text}")
    strategy = _of(_of(_of(bundle.csv, "spec"), "install"), "spec")
    accounts = {
        _of(_of(_of(one, "spec"), "template"), "spec").get("serviceAccountName")
        for one in _list(strategy, "deployments")
    }
    for one in bundle.objects:
        if one.get("kind") == "ServiceAccount" and _of(one, "metadata").get("name") in accounts:
            yield _error(
                f"Value {one['metadata']['name']}: invalid service account found in bundle: "
                "one of the same name is specified in the CSV"
            )


def _images(bundle: Bundle) -> Iterable[Finding]:
    for number, one in enumerate(_list(_of(bundle.csv, "spec"), "relatedImages")):
        image = str(one.get("image") or "")
        if not image:
            yield _error(f"relatedImages[{number}] has an empty image field")
        elif _IMAGE.fullmatch(image) is None:
            yield _error(f'relatedImages[{number}] has an invalid image pullspec "{image}"')


def _size(bundle: Bundle) -> Iterable[Finding]:
    if bundle.size > _MAX_BUNDLE_BYTES:
        yield _error(
            f"maximum bundle compressed size with gzip size exceeded: size=~{bundle.size} B, max={_MAX_BUNDLE_BYTES} B"
        )
    elif bundle.size > _MAX_BUNDLE_BYTES * 0.85:
        yield _warning(
            f"nearing maximum bundle compressed size with gzip: size=~{bundle.size} B, max={_MAX_BUNDLE_BYTES} B"
        )


def _hub(bundle: Bundle) -> Iterable[Finding]:
    name, spec = _name(bundle), _of(bundle.csv, "spec")
    if not str(_of(spec, "provider").get("name") or "").strip():
        yield _error(f"({name}) csv.Spec.Provider.Name not specified")
    yield from _people(name, spec)
    version = str(spec.get("version") or "")
    if version in ("", "0.0.0"):
        yield _error(f"({name}) csv.Spec.Version must be set")
    elif _SEMVER.fullmatch(version) is None:
        yield _error(f"({name}) csv.Spec.Version {version} is no version of semver.org")
    yield from _icon(name, spec)


def _people(name: str, spec: Mapping[str, Any]) -> Iterable[Finding]:
    for one in _list(spec, "maintainers"):
        if not one.get("name") or not one.get("email"):
            yield _error(f"({name}) csv.Spec.Maintainers elements should contain both name and email")
        email = str(one.get("email") or "")
        if email and re.fullmatch(r"[^@\s]+@[^@\s]+", parseaddr(email)[1]) is None:
            yield _error(f"({name}) csv.Spec.Maintainers email {email} is invalid")
    for one in _list(spec, "links"):
        if not one.get("name") or not one.get("url"):
            yield _error(f"({name}) csv.Spec.Links elements should contain both name and url")
        url = str(one.get("url") or "")
        if url and not (urlsplit(url).scheme or url.startswith("/")):
            yield _error(f"({name}) csv.Spec.Links url {url} is invalid")


def _level(bundle: Bundle) -> Iterable[Finding]:
    name = _name(bundle)
    annotations = _of(_of(bundle.csv, "metadata"), "annotations")
    level = annotations.get("capabilities")
    if level is not None and level not in CAPABILITIES:
        yield _error(f'({name}) csv.Metadata.Annotations.Capabilities "{level}" is not a valid capabilities level')
    for category in str(annotations["categories"]).split(",") if "categories" in annotations else ():
        if category.strip() not in CATEGORIES:
            text = f'csv.Metadata.Annotations["categories"] value "{category}" is not in the set of standard categories'
            yield _error(f"({name}) {text}")


def _icon(name: str, spec: Mapping[str, Any]) -> Iterable[Finding]:
    icons = _list(spec, "icon")
    if not icons:
        yield _warning(f"({name}) csv.Spec.Icon not specified")
        return
    if len(icons) != 1:
        yield _error(f"({name}) csv.Spec.Icon should only have one element")
    if not icons[0].get("mediatype") or not icons[0].get("base64data"):
        yield _error(f"({name}) csv.Spec.Icon elements should contain both data and mediatype")
    media = icons[0].get("mediatype")
    if media and media not in _ICONS:
        yield _error(f"({name}) csv.Spec.Icon {media} does not have a valid mediatype")


def _metadata(bundle: Bundle) -> Iterable[Finding]:
    prefix = "operators.operatorframework.io.bundle."
    for key in ("mediatype.v1", "manifests.v1", "metadata.v1", "package.v1", "channels.v1"):
        if not bundle.annotations.get(prefix + key):
            yield _error(f"metadata/annotations.yaml: {prefix}{key} is missing")
    channels = str(bundle.annotations.get(f"{prefix}channels.v1") or "").split(",")
    default = bundle.annotations.get(f"{prefix}channel.default.v1")
    if default and default not in channels:
        yield _error(f"metadata/annotations.yaml: the default channel {default} is not among the channels")
