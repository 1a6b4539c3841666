"""`steersman models`: classes for somebody else's custom resources, which type checkers and linters like."""

from __future__ import annotations

import copy
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steersman.cli.dispatch import run
from steersman.cli.model_shapes import known_shapes
from steersman.manifests import crds
from steersman.models import Quantity, from_dict, to_dict
from steersman.models.codegen import files_from_crds
from tests.manifests import broad, golden_types

ROOT = Path(__file__).parents[2]


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("HOME", str(tmp_path))

    def call(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run(["models", *map(str, words)])
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


def definition(kind: str = "Cluster", group: str = "db.example.com", **versions: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    entries = [
        {"name": name, "served": True, "storage": index == 0, "schema": {"openAPIV3Schema": given or schema}}
        for index, (name, given) in enumerate((versions or {"v1": None}).items())
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": f"{kind.lower()}s"},
            "scope": "Namespaced",
            "versions": entries,
        },
    }


def loaded(files: dict[str, str], module: str, package: str) -> dict[str, Any]:
    import types

    made = types.ModuleType(f"{package}.{module}")
    sys.modules[made.__name__] = made
    exec(compile(files[f"{module}.py"], module, "exec"), made.__dict__)
    return made.__dict__


def test_files_are_written_checked_and_kept_up_to_date(command, tmp_path):
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(definition()))

    code, out, _ = command("crd.yaml", "--package", "acme.models")
    assert code == 0
    assert "acme/models/db_v1.py: created" in out
    assert command("crd.yaml", "--package", "acme.models", "--check")[:2] == (
        0,
        "2 files in acme/models are up to date\n",
    )

    changed = definition(v2=None)
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(changed))
    code, out, _ = command("crd.yaml", "--package", "acme.models", "--check", "--output", "json")
    assert code == 1
    assert json.loads(out) == {
        "files": ["__init__.py", "db_v2.py"], "new": ["db_v2.py"], "changed": ["__init__.py"], "gone": ["db_v1.py"],
    }  # fmt: skip
    assert command("crd.yaml", "--package", "acme.models")[0] == 0
    assert sorted(p.name for p in (tmp_path / "acme/models").glob("*.py")) == ["__init__.py", "db_v2.py"]


def test_the_classes_are_imported_and_belong_to_no_manifests(command, tmp_path):
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(definition()))
    command("crd.yaml", "--package", "written_models")
    cluster = importlib.import_module("written_models").Cluster
    assert cluster.__resource__.external
    assert from_dict(cluster, {"metadata": {"name": "a"}, "spec": {"size": 3}}).spec.size == 3


def test_a_file_of_somebody_else_is_left_alone(command, tmp_path):
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(definition()))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "db_v1.py").write_text("PRECIOUS = 1\n")
    code, _, err = command("crd.yaml", "--package", "mine")
    assert code == 1
    assert "was not made by `steersman models`" in err
    assert (tmp_path / "mine" / "db_v1.py").read_text() == "PRECIOUS = 1\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name files with CRDs"),
        (["nothing.yaml"], "there is no such file"),
        (["x.yaml", "--package", "not a package"], "is not a package name"),
        (["x.yaml"], "x.yaml:2: not YAML"),
        (["y.yaml"], "there is no CustomResourceDefinition in y.yaml"),
        (["z.yaml"], "clusters.db.example.com: version v1 has no schema.openAPIV3Schema"),
        (["w.yaml"], "its spec is not complete: 'group'"),
    ],
)
def test_bad_input_is_one_clear_message(command, tmp_path, words, message):
    (tmp_path / "x.yaml").write_text("a: b\n c: [\n")
    (tmp_path / "y.yaml").write_text("kind: ConfigMap\n")
    no_schema = definition()
    del no_schema["spec"]["versions"][0]["schema"]
    (tmp_path / "z.yaml").write_text(yaml.safe_dump(no_schema))
    no_group = definition()
    del no_group["spec"]["group"]
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(no_group))
    code, out, err = command(*words)
    assert code in (1, 2)
    assert message in out + err
    assert "Traceback" not in out + err


def test_groups_with_the_same_first_label_have_modules_of_their_own():
    files = files_from_crds([definition(group="db.a.com"), definition(group="db.b.com")], package="m")
    assert set(files) == {"db_a_com_v1.py", "db_b_com_v1.py", "__init__.py"}
    assert "import Cluster as DbAComV1Cluster" in files["__init__.py"]


def test_the_stablest_version_has_the_name_of_the_kind():
    files = files_from_crds([definition(v1=None, v1beta1=None, v2alpha1=None)], package="m")
    assert files["__init__.py"].splitlines()[-1] == "from m.db_v1 import Cluster as Cluster"


def test_kinds_and_fields_may_be_named_like_python_s_own_things():
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "class": {"type": "string"},
                    "model": {"type": "object", "properties": {"any": {"type": "string"}}},
                    "2fast": {"type": "string"},
                    "list": {"type": "array", "nullable": True, "items": {"type": "string", "nullable": True}},
                },
                "required": ["list"],
            }
        },
    }
    files = files_from_crds([definition("Model", v1=schema), definition("ModelSpec", v1=schema)], package="odd")
    model = loaded(files, "db_v1", "odd")["ModelKind"]
    assert model.__resource__.kind == "Model"
    read = from_dict(model, {"spec": {"class": "a", "model": {"any": "b"}, "2fast": "c", "list": ["d", None]}})
    assert to_dict(read)["spec"] == {"class": "a", "model": {"any": "b"}, "2fast": "c", "list": ["d", None]}
    assert from_dict(model, {"spec": {"list": None}}).spec.list == ()


def test_quantities_of_our_own_schemas_are_quantities_again():
    files = files_from_crds(crds([golden_types.Wide]), package="again")
    wide = loaded(files, "wide_v1", "again")["Wide"]
    read = from_dict(wide, {"spec": {"step": 5, "word": "a", "fixed": "x", "size": "1Gi"}})
    assert read.spec.size == Quantity("1Gi")


def test_kubernetes_own_types_are_not_made_again():
    from steersman.k8s import EnvVar

    files = files_from_crds(crds([golden_types.CronJob, golden_types.Wide]), package="shaped", shapes=known_shapes())
    assert "from steersman.k8s.core_v1 import" in files["wide_v1.py"]
    assert sum(map(len, files.values())) < 40_000
    wide = loaded(files, "wide_v1", "shaped")["Wide"]
    read = from_dict(wide, {"spec": {"step": 5, "word": "a", "fixed": "x", "env": [{"name": "A", "value": "b"}]}})
    assert read.spec.env == (EnvVar(name="A", value="b"),)
    cron = loaded(files, "batch_v1", "shaped")["CronJob"]
    pod = {"containers": [{"name": "a", "image": "b"}]}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    assert from_dict(cron, {"spec": spec}).spec.job_template.spec.template.spec.containers[0].image == "b"


def test_a_lone_equals_sign_is_a_text(command, tmp_path):
    made = yaml.safe_dump(definition())
    (tmp_path / "crd.yaml").write_text(made + "    x: =\n")
    assert command("crd.yaml", "--package", "equals")[0] == 0


@pytest.mark.slow
def test_what_is_generated_passes_strict_type_checks_and_the_linter(tmp_path):
    package = tmp_path / "checked"
    package.mkdir()
    every = [*crds([broad.Broad]), *crds([golden_types.Wide, golden_types.Captain, golden_types.Memcached])]
    for name, text in files_from_crds(every, package="checked", shapes=known_shapes()).items():
        (package / name).write_text(text)
    settings_file = tmp_path / "pyrightconfig.json"
    settings_file.write_text(
        json.dumps({"typeCheckingMode": "strict", "include": ["checked"], "extraPaths": [str(ROOT / "src")]})
    )
    # The docstrings are the descriptions of a definition, in the words and with the punctuation of their authors.
    rules = ["--config", str(ROOT / "pyproject.toml"), "--extend-ignore", "D"]
    lint = [sys.executable, "-m", "ruff", "check", *rules, str(package)]
    linted = subprocess.run(lint, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout
    types = [str(Path(sys.executable).with_name("pyright")), "--pythonpath", sys.executable, "-p", str(settings_file)]
    checked = subprocess.run(types, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout[-3000:]


def test_crds_of_a_cluster_are_read(command, cluster):
    crd = crds([golden_types.Captain])[0]
    crd = copy.deepcopy(crd)
    cluster.apply(crd)
    code, out, err = command("--group", "crew.testproject.org", "--package", "crew", "--kubeconfig", cluster.kubeconfig)
    assert code == 0, err
    assert "crew/crew_v1.py: created" in out
    code, _, err = command("--crd", "no.such.thing", "--package", "crew", "--kubeconfig", cluster.kubeconfig)
    assert code == 1
    assert "the cluster has no CRD of no.such.thing; it has " in err


NAMES = st.sampled_from(
    [
        "size",
        "class",
        "URL",
        "clusterIPs",
        "any",
        "model",
        "2x",
        "$ref",
        "x-y",
        "from",
        "str",
        "datetime",
        "type",
        "self",
    ]
)
LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer", "format": "int32"},
        {"type": "number"},
        {"type": "boolean", "nullable": True},
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "byte"},
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "string", "description": 'Says "this"; \\ and """that"""\nand more.'},
    ]
)


def objects(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(NAMES, children, max_size=4)
    return st.one_of(
        properties.map(lambda p: {"type": "object", "properties": p, "required": sorted(p)[:1]}),
        children.map(lambda c: {"type": "array", "items": c}),
        children.map(lambda c: {"type": "object", "additionalProperties": c}),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(NAMES, st.recursive(LEAVES, objects, max_leaves=8), max_size=5))
def test_any_schema_becomes_a_module_that_can_be_imported(properties):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    files = files_from_crds([definition("Thing", v1=schema)], package="drawn")
    thing = loaded(files, "db_v1", "drawn")["Thing"]
    assert from_dict(thing, {"metadata": {"name": "x"}, "spec": value({"type": "object", "properties": properties})})


def value(schema: dict[str, Any]) -> Any:
    """Something that fits a schema."""
    match schema.get("type"):
        case "object" if "additionalProperties" in schema:
            return {"k": value(schema["additionalProperties"])}
        case "object":
            return {name: value(child) for name, child in schema["properties"].items()}
        case "array":
            return [value(schema["items"])]
        case "string":
            return {"date-time": "2024-01-01T00:00:00Z", "byte": "YQ=="}.get(schema.get("format"), "text")
        case "integer":
            return 1
        case "number":
            return 1.5
        case "boolean":
            return True
        case _:
            return 1
