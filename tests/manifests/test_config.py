"""The files of `config/`: stable, checked, and for HelloApp equal to the former hand-written files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from steersman.cli.dispatch import run
from steersman.manifests import to_yaml

HELLOAPP = Path(__file__).parents[2] / "operators" / "helloapp"
APP = """
from steersman import Context, Model, Operator, Resource

class Spec(Model):
    size: int = 1
    \"\"\"How many.\"\"\"

class CfgThing(Resource, group="cfg.example.com", version="v1"):
    spec: Spec

operator = Operator("cfg")

@operator.controller
async def reconcile(thing: CfgThing, ctx: Context) -> None: ...
"""
Command = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "cfgapp.py").write_text(APP)
    monkeypatch.delitem(sys.modules, "cfgapp", raising=False)

    def call(*words: str) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as ended:
            run(["manifests", *words])
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


def test_files_are_written_once_and_a_second_run_changes_nothing(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("cfgapp:operator", "--output", "json")
    assert code == 0
    assert json.loads(out)["new"] == [
        "config/crd/bases/cfg.example.com_cfgthings.yaml",
        "config/crd/kustomization.yaml",
        "config/default/kustomization.yaml",
        "config/manager/kustomization.yaml",
        "config/manager/manager.yaml",
        "config/network-policy/kustomization.yaml",
        "config/network-policy/policies.yaml",
        "config/prometheus/kustomization.yaml",
        "config/prometheus/monitoring.yaml",
        "config/rbac/kustomization.yaml",
        "config/rbac/role.yaml",
        "config/rbac/user_roles.yaml",
        "config/samples/cfg_v1_cfgthing.yaml",
        "config/samples/kustomization.yaml",
    ]
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in (tmp_path / "config").rglob("*.yaml")}

    assert command("cfgapp:operator")[:2] == (0, "14 files in config are up to date\n")
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in (tmp_path / "config").rglob("*.yaml")} == before


def test_check_fails_when_files_differ_and_writes_nothing(command: Command, tmp_path: Path) -> None:
    assert command("cfgapp:operator", "--check")[0] == 1
    assert not (tmp_path / "config").exists()
    command("cfgapp:operator")
    assert command("cfgapp:operator", "--check")[0] == 0

    crd = tmp_path / "config/crd/bases/cfg.example.com_cfgthings.yaml"
    crd.write_text(crd.read_text().replace("How many.", "How few."))
    code, out, _ = command("cfgapp:operator", "--check")
    assert code == 1
    assert "-                description: How few." in out
    assert "+                description: How many." in out


def test_files_that_are_not_made_any_more_are_removed_and_others_are_left_alone(
    command: Command, tmp_path: Path
) -> None:
    command("cfgapp:operator")
    crd = tmp_path / "config/crd"
    text = (crd / "bases/cfg.example.com_cfgthings.yaml").read_text()
    (crd / "old.yaml").write_text(text)
    (crd / "bases/old.yaml").write_text(text)
    (crd / "kustomization.yaml").write_text("resources: []\n")

    out = command("cfgapp:operator")[1]
    assert "config/crd/old.yaml: removed" in out
    assert "config/crd/bases/old.yaml: removed" in out
    assert sorted(p.name for p in crd.iterdir()) == ["bases", "kustomization.yaml"]
    assert [p.name for p in (crd / "bases").iterdir()] == ["cfg.example.com_cfgthings.yaml"]


def test_split_writes_one_object_to_a_file_and_the_same_objects_as_without(command: Command, tmp_path: Path) -> None:
    def objects(folder: Path) -> dict[str, list[Any]]:
        files = sorted(p for p in folder.rglob("*.yaml") if p.name != "kustomization.yaml")
        return {str(p.relative_to(folder)): list(yaml.safe_load_all(p.read_text())) for p in files}

    scope = ("--watch-namespace", "red", "--watch-namespace", "blue")
    command("cfgapp:operator", *scope)
    together = objects(tmp_path / "config")
    assert "config/rbac/role.yaml: removed" in command("cfgapp:operator", "--split", *scope)[1]
    apart = objects(tmp_path / "config")

    assert {len(documents) for documents in apart.values()} == {1}
    assert {"rbac/role_cfg.yaml", "rbac/service_account_cfg.yaml"} <= set(apart)

    def keys(files: dict[str, list[Any]]) -> list[str]:
        return sorted(json.dumps(document, sort_keys=True) for documents in files.values() for document in documents)

    assert keys(apart) == keys(together)
    listed = yaml.safe_load((tmp_path / "config/rbac/kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(p.removeprefix("rbac/") for p in apart if p.startswith("rbac/"))
    assert command("cfgapp:operator", "--split", "--check", *scope)[0] == 0
    assert command("cfgapp:operator", "--check", *scope)[0] == 1


def test_kubectl_can_apply_the_folder_of_definitions(command: Command, tmp_path: Path) -> None:
    """`kubectl apply -f config/crd/bases`, as published tutorials have it: no kustomization is in the way."""
    command("cfgapp:operator")
    kinds = {yaml.safe_load(p.read_text())["kind"] for p in (tmp_path / "config/crd/bases").iterdir()}
    assert kinds == {"CustomResourceDefinition"}


def test_a_directory_that_is_a_file_is_an_error_and_no_traceback(command: Command, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    code, _, err = command("cfgapp:operator")
    assert code == 1
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_problems_are_printed_with_their_places(command: Command, tmp_path: Path) -> None:
    (tmp_path / "cfgapp.py").write_text(APP.replace("size: int = 1", "size: complex = 1j"))
    code, _, err = command("cfgapp:operator")
    assert code == 1
    assert f"{tmp_path}/cfgapp.py:5: Spec.size: JSON has no complex numbers" in err
    assert not (tmp_path / "config").exists()


def test_yaml_quotes_what_parsers_disagree_on() -> None:
    words = ["y", "no", "1e3", "0x1f", "1_000", "2001-01-01", "12:30", "~", "", ".5", "=", "null", "a: b", "# x", "1.0"]
    text = to_yaml({"words": words, "text": "a\nb\n", "trailing": "a \nb", "unicode": "größe"})
    assert yaml.safe_load(text)["words"] == words
    assert all(f"- '{word}'" in text for word in words if word != "# x")
    assert yaml.safe_load(text)["text"] == "a\nb\n"
    assert yaml.safe_load(text)["trailing"] == "a \nb"
    assert "größe" in text


# The files before they were generated; descriptions are compared, too.
def test_helloapp_s_manifests_are_what_was_written_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    from steersman.manifests import Package, package_files

    monkeypatch.syspath_prepend(str(HELLOAPP))
    from helloapp import operator

    golden = Path(__file__).parent / "golden"
    files = package_files(Package(operator, "helloapp:operator"))

    crd = yaml.safe_load(files["crd/bases/apps.anupam.com_helloapps.yaml"])
    assert _plain(crd) == _plain(yaml.safe_load((golden / "helloapps.yaml").read_text()))
    for path, text in files.items():
        assert (HELLOAPP / "config" / path).read_text() == text, f"{path} is out of date: run steersman manifests"

    made, written = _grants(files["rbac/role.yaml"]), _grants((golden / "role.yaml").read_text())
    added = {  # permissions that the declarations imply and the operator does not use today
        ("demo-operator", "apps", "deployments", "delete"),
        ("demo-operator", "apps.anupam.com", "helloapps/finalizers", "update"),
        ("demo-operator-metrics-auth", "authentication.k8s.io", "tokenreviews", "create"),
        ("demo-operator-metrics-auth", "authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    assert made == written | added


def _plain(crd: dict[str, Any]) -> dict[str, Any]:
    """Atomic is what a list is without a word."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: walk(v) for k, v in value.items() if not (k == "x-kubernetes-list-type" and v == "atomic")}
        return [walk(v) for v in value] if isinstance(value, list) else value

    return walk(crd)


def _grants(text: str) -> set[tuple[str, str, str, str]]:
    found: set[tuple[str, str, str, str]] = set()
    for doc in yaml.safe_load_all(text):
        for rule in doc.get("rules", []):
            assert not rule.get("resourceNames")
            found |= {
                (doc["metadata"]["name"], group, resource, verb)
                for group in rule.get("apiGroups", ())
                for resource in rule.get("resources", ())
                for verb in rule["verbs"]
            }
    return found
