"""The commands as they are typed: the road of the published tutorials, and what a user reads when it does not go."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from steersman.cli.scaffolding.tutorial_flags import translate
from steersman.scaffold import render, update_files
from steersman.scaffold.generated_record import read_record
from steersman.scaffold.project import parse

from .projects import api, made, tree, webhook

HELLOAPP = Path(__file__).parents[2] / "operators" / "helloapp"


@pytest.fixture
def steersman(tmp_path):
    """Runs a command in the project; returns the exit code and the output."""

    def run(words, root=tmp_path / "hello-app", code=0):
        root.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "steersman", *words.split()], cwd=root, stdin=subprocess.DEVNULL,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.mark.slow
def test_the_road_yields_a_project_that_passes_its_own_lint_types_and_tests(steersman, tmp_path):
    root = tmp_path / "hello-app"
    steersman("init --domain anupam.com")
    steersman("create api --group apps --version v1 --kind HelloApp --resource=true --controller=true")
    project = parse((root / "PROJECT").read_text())
    assert (project.name, project.package) == ("hello-app", "hello_app")
    project = webhook(
        api(project, "HelloApp", "v1beta1"),
        "HelloApp",
        defaulting=True,
        validation=True,
        conversion=True,
        spoke=["v1beta1"],
    )
    update_files(root, webhook(project, group="core", kind="Pod", defaulting=True))
    for tool in (
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["pyright", "--pythonpath", sys.executable],
        ["mypy", "--strict", "--cache-dir", str(tmp_path / "mypy"), "hello_app"],
        ["pytest", "-q", "-p", "no:cacheprovider", "--ignore=tests/e2e"],
    ):
        if tool[0] == "pyright" and find_spec("pyright") is None:
            continue
        done = subprocess.run(
            [sys.executable, "-m", *tool], cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


REQUIRED = """    schedule: str
    \"\"\"When it runs.\"\"\"
    replicas: Annotated[int, Ge(1)]
    \"\"\"How many there are.\"\"\"
"""


@pytest.mark.slow
def test_scaffolded_tests_and_samples_pass_for_specs_with_required_fields(steersman, tmp_path):
    """As the CronJob tutorial goes on: two versions, webhooks, and a spec that cannot be empty."""
    root = tmp_path / "hello-app"
    steersman("init --domain tutorial.example.com --package cron_operator")
    steersman("create api --group batch --version v1 --kind CronJob")
    steersman("create api --group batch --version v2 --kind CronJob")
    steersman("create webhook --group batch --version v1 --kind CronJob --defaulting --programmatic-validation")
    steersman("create webhook --group batch --version v1 --kind CronJob --conversion --spoke v2")
    for types in root.rglob("cronjob_types.py"):
        text = types.read_text()
        example = text[text.index("    foo: ") : text.index("class CronJobStatus")]
        text = text.replace(example, REQUIRED + "\n\n")
        text = text.replace("from steersman import", "from typing import Annotated\n\nfrom steersman import", 1)
        types.write_text(text.replace("import Conditions", "import Ge, Conditions"))
    steersman("manifests cron_operator:operator")

    names = {yaml.safe_load(file.read_text())["metadata"]["name"] for file in (root / "config/samples").glob("batch*")}
    assert names == {"cronjob-sample", "cronjob-v2-sample"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("STEERSMAN_")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "needs a real kube-apiserver" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("docker-build docker-push IMG=r/x:1", ["build --image r/x:1", "build --image r/x:1 --push-only"]),
        ("generate", ["manifests demo_operator:operator"]),
        ("build-installer IMG=r/x:1", ["manifests demo_operator:operator --image r/x:1 --install dist/install.yaml"]),
        ("install run", ["install demo_operator:operator", "run demo_operator:operator"]),
    ],
)
def test_make_has_the_targets_of_the_published_tutorials(tmp_path, words, told):
    root = made(tmp_path / "hello-app")
    command = ["make", "--no-print-directory", "-n", *words.split()]  # that of a `make test` names its directory
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"python3 -m steersman {line}" for line in told]


@pytest.mark.slow
def test_delete_takes_the_manifests_along(steersman, tmp_path):
    crd = tmp_path / "hello-app" / "config" / "crd" / "bases" / "apps.anupam.com_helloapps.yaml"
    steersman("init --domain anupam.com")
    told = steersman("create api --group apps --version v1 --kind HelloApp --output json")
    assert str(crd.relative_to(tmp_path / "hello-app")) in json.loads(told)["created"]
    assert crd.exists()
    assert "removed config/crd/" in steersman("delete api --group apps --version v1 --kind HelloApp -y")
    assert not crd.exists()


@pytest.mark.slow
def test_code_that_cannot_be_imported_leaves_the_manifests_and_says_so(steersman, tmp_path):
    root = made(tmp_path / "hello-app")
    (root / "demo_operator" / "manager.py").write_text("import nonsense_that_is_not_there\n")
    told = steersman("create api --group apps --version v1 --kind HelloApp")
    assert "config/ was not changed" in told
    assert "nonsense_that_is_not_there" in told
    assert (root / "demo_operator/api/v1/helloapp_types.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("create api --group apps --version v1 --kind helloApp", 2, "Pascal case"),
        ("create api --group apps --version v1", 2, "--kind"),
        ("create webhook --group apps --version v1 --kind HelloApp --defaulting", 2, "create api"),
        ("init --domain example.com", 2, "has a project already"),
        ("delete api --group apps --version v1 --kind HelloApp", 2, "it has none"),
        ("update", 1, "git"),
    ],
)
def test_what_cannot_be_done_is_told_and_changes_nothing(steersman, tmp_path, monkeypatch, words, code, told):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    root = made(tmp_path / "hello-app")
    before = tree(root)
    said = steersman(words, code=code)
    assert told in said
    assert "Traceback" not in said
    assert tree(root) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("init --domain Example.com", "domain 'Example.com'"),
        ("init --domain example.com --project-name my_app", "project name 'my_app'"),
        ("init --domain example.com --project-name json", "would hide another module"),
        ("init --domain example.com --package class", "not a lower-case Python name"),
        ("create api --group apps --version v1 --kind HelloApp", "steersman init"),
    ],
)
def test_a_bad_name_makes_no_project(steersman, tmp_path, words, told):
    code = 1 if words.startswith("create") else 2
    assert told in steersman(words, code=code)
    assert list((tmp_path / "hello-app").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_is_named(steersman, tmp_path):
    root = made(tmp_path / "hello-app")
    before = tree(root)
    (root / "tests").chmod(0o500)
    try:
        assert "Permission denied" in steersman("create api --group apps --version v1 --kind HelloApp", code=1)
    finally:
        (root / "tests").chmod(0o700)
    assert tree(root) == before


def test_flags_are_read_as_published_tutorials_write_them():
    words = ["create", "api", "--resource=false", "--controller=true", "--force=false", "--plural=true", "--kind=X"]
    assert translate(words) == (["create", "api", "--no-resource", "--controller", "--plural=true", "--kind=X"], [])
    assert translate(["run", "--force=false"]) == (["run", "--force=false"], [])
    assert translate([]) == ([], [])


@pytest.mark.parametrize(
    ("words", "translated", "notes"),
    [
        (
            "init --domain tutorial.kubebuilder.io --repo tutorial.kubebuilder.io/project --license apache2 --owner Us",
            "init --domain tutorial.kubebuilder.io --license Apache-2.0 --owner Us",
            ["--repo is ignored: a Python project has no Go module path"],
        ),
        (
            "init --plugins=go/v4 --project-version 3 --domain example.com --skip-go-version-check",
            "init --domain example.com",
            [
                "--plugins is ignored: there is one layout of projects",
                "--project-version is ignored: there is one layout of projects",
                "--skip-go-version-check is ignored: no Go is needed",
            ],
        ),
        (
            "create api --group batch --version v1 --kind CronJob --make=false",
            "create api --group batch --version v1 --kind CronJob",
            ["--make is ignored: `make manifests` runs with each change of the project"],
        ),
        (
            "create webhook --group g --version v1 --kind K --type=mutating,validating --operations=create,update",
            "create webhook --group g --version v1 --kind K --defaulting --programmatic-validation",
            ["--type mutating is read as --defaulting", "--type validating is read as --programmatic-validation"],
        ),
        (
            "create webhook --group g --version v1 --kind K --type validating --operations delete",
            "create webhook --group g --version v1 --kind K --programmatic-validation",
            [
                "--type validating is read as --programmatic-validation",
                '--operations is ignored: write on=("delete",) into the decorator of the webhook\'s function',
            ],
        ),
    ],
)
def test_flags_of_published_tutorials_are_translated_or_left_out_with_a_note(words, translated, notes):
    assert translate(words.split()) == (translated.split(), notes)


@pytest.mark.slow
def test_the_words_of_the_cronjob_tutorial_make_a_project(steersman, tmp_path):
    told = steersman("init --domain tutorial.kubebuilder.io --repo tutorial.kubebuilder.io/project")
    assert "note: --repo is ignored" in told
    steersman("create api --group batch --version v1 --kind CronJob --resource --controller --make=false")
    steersman("create webhook --group batch --version v1 --kind CronJob --type validating")
    assert (tmp_path / "hello-app/hello_app/webhooks/cronjob_v1_validation.py").exists()
    told = steersman("create webhook --group batch --version v1 --kind CronJob --type admission", code=2)
    assert "--type 'admission': expected mutating, validating or conversion" in told


def test_helloapp_is_what_the_road_yields_plus_its_logic():
    """The project differs from the templates only in the files that its README names."""
    ours = {
        "README.md",
        "config/samples/apps_v1_helloapp.yaml",
        "helloapp/api/v1/helloapp_types.py",
        "helloapp/controllers/helloapp_controller.py",
        "tests/test_helloapp_controller.py",
        "pyproject.toml",
    }
    project = parse((HELLOAPP / "PROJECT").read_text())
    new = render(project)
    changed = {path for path, text in new.items() if (HELLOAPP / path).read_text() != text}
    assert changed <= ours
    base = read_record(HELLOAPP)
    assert base == {path: text for path, text in new.items() if path != "PROJECT"}
