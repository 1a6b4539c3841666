"""A bundle in the format registry+v1, and the file-based catalog with it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from steersman.manifests.config_directory import HEADER
from steersman.manifests.olm.csv import Listing, csv_name, service_version
from steersman.manifests.packaging import Package
from steersman.manifests.parts import parts_of
from steersman.manifests.template_values import resolved
from steersman.manifests.yaml import to_yaml

__all__ = ["BUNDLE_FOLDERS", "bundle_files", "catalog_text"]

BUNDLE_FOLDERS: Final = ("manifests", "metadata", "tests/scorecard")
_PREFIX: Final = "operators.operatorframework.io"
_SCORECARD: Final = "quay.io/operator-framework/scorecard-test:v1.42.0"
_CHECKS: Final = (
    ("basic", "basic-check-spec"),
    ("olm", "olm-bundle-validation"),
    ("olm", "olm-crds-have-validation"),
    ("olm", "olm-crds-have-resources"),
    ("olm", "olm-spec-descriptors"),
    ("olm", "olm-status-descriptors"),
)


def bundle_files(package: Package, listing: Listing, given: Iterable[Mapping[str, Any]] = ()) -> dict[str, str]:
    """Return the text of every file by its path below the bundle's directory. Raises `ManifestError`."""
    files: dict[str, str] = {}
    for document in _manifests(package, listing, given):
        kind, name = document["kind"], document["metadata"]["name"]
        if kind == "CustomResourceDefinition":
            spec = document["spec"]
            path = f"{spec['group']}_{spec['names']['plural']}.yaml"
        elif kind == "ClusterServiceVersion":
            path = f"{package.name}.clusterserviceversion.yaml"
        else:
            path = f"{name}_{kind.lower()}.yaml"
        files[f"manifests/{path}"] = HEADER + to_yaml(document)
    annotations = _annotations(package, listing)
    files["metadata/annotations.yaml"] = HEADER + to_yaml({"annotations": annotations})
    files["tests/scorecard/config.yaml"] = HEADER + to_yaml(_scorecard())
    files["bundle.Dockerfile"] = HEADER + _dockerfile(annotations)
    return dict(sorted(files.items()))


def _manifests(package: Package, listing: Listing, given: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    parts = parts_of(package)
    yield service_version(package, listing, given)
    for tree in parts.crds:
        crd = resolved(tree)
        crd["metadata"].pop("annotations", None)
        yield crd
    documents: list[Any] = [resolved(one) for one in parts.manager if resolved(one)["kind"] == "Service"]
    documents += [one for one in parts.rbac if one["metadata"]["name"] == f"{package.name}-metrics-reader"]
    documents += parts.user_roles
    for document in documents:
        metadata = {key: value for key, value in document["metadata"].items() if key != "namespace"}
        yield {**document, "metadata": metadata}


def _annotations(package: Package, listing: Listing) -> dict[str, str]:
    return {
        f"{_PREFIX}.bundle.channel.default.v1": listing.default_channel or listing.channels[0],
        f"{_PREFIX}.bundle.channels.v1": ",".join(listing.channels),
        f"{_PREFIX}.bundle.manifests.v1": "manifests/",
        f"{_PREFIX}.bundle.mediatype.v1": "registry+v1",
        f"{_PREFIX}.bundle.metadata.v1": "metadata/",
        f"{_PREFIX}.bundle.package.v1": package.name,
        f"{_PREFIX}.test.config.v1": "tests/scorecard/",
        f"{_PREFIX}.test.mediatype.v1": "scorecard+v1",
    }


def _scorecard() -> dict[str, Any]:
    tests = [
        {
            "entrypoint": ["scorecard-test", check],
            "image": _SCORECARD,
            "labels": {"suite": suite, "test": f"{check}-test"},
        }
        for suite, check in _CHECKS
    ]
    return {
        "apiVersion": "scorecard.operatorframework.io/v1alpha3",
        "kind": "Configuration",
        "metadata": {"name": "config"},
        "stages": [{"parallel": True, "tests": tests}],
    }


def _dockerfile(annotations: Mapping[str, str]) -> str:
    lines = ["FROM scratch", *(f"LABEL {key}={value}" for key, value in sorted(annotations.items()))]
    lines += [f"COPY {folder} /{folder}/" for folder in BUNDLE_FOLDERS]
    return "\n".join(lines) + "\n"


def catalog_text(package: Package, listing: Listing, image: str, given: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return a file-based catalog with this version, from the bundle's image `image`.

    Combine the channels of several versions manually, or with opm's templates, because a catalog has a history that a
    single version does not have.
    """
    files = bundle_files(package, listing, given)
    version = service_version(package, listing, given)
    objects = [text for path, text in files.items() if path.startswith("manifests/")]
    properties: list[dict[str, Any]] = [
        {"type": "olm.package", "value": {"packageName": package.name, "version": package.version}},
        *(
            {
                "type": "olm.gvk",
                "value": {"group": one["name"].partition(".")[2], "kind": one["kind"], "version": one["version"]},
            }
            for one in version["spec"]["customresourcedefinitions"]["owned"]
        ),
        *({"type": "olm.bundle.object", "value": {"data": _encoded(text)}} for text in objects),
    ]
    entry = {"name": csv_name(package), **({"replaces": listing.replaces} if listing.replaces else {})}
    documents: list[dict[str, Any]] = [
        {
            "schema": "olm.package",
            "name": package.name,
            "defaultChannel": listing.default_channel or listing.channels[0],
            "description": version["spec"]["description"],
            **(
                {"icon": {"base64data": listing.icon[0], "mediatype": listing.icon[1]}}
                if listing.icon is not None
                else {}
            ),
        },
        *(
            {"schema": "olm.channel", "package": package.name, "name": channel, "entries": [entry]}
            for channel in listing.channels
        ),
        {
            "schema": "olm.bundle",
            "name": csv_name(package),
            "package": package.name,
            "image": image,
            "properties": properties,
            "relatedImages": [{"name": "", "image": image}, *version["spec"]["relatedImages"]],
        },
    ]
    return HEADER + to_yaml(documents)


def _encoded(text: str) -> str:
    import yaml

    return base64.b64encode(json.dumps(yaml.safe_load(text), sort_keys=True).encode()).decode()
