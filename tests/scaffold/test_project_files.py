"""The commands on a directory: written files, kept files, and all-or-nothing writes."""

import json
import os
import shutil
from dataclasses import replace

import pytest
import yaml

from steersman.scaffold import (
    ScaffoldError,
    WebhookOptions,
    delete_api,
    delete_webhook,
    open_project,
    update,
    update_files,
)
from steersman.scaffold.generated_record import RECORD
from steersman.scaffold.render import TEMPLATES
from steersman.scaffold.transaction import recover, write_transaction

from .projects import EMPTY, PRIVATE, api, broken, committed, git, lint, made, newer_templates, tree, webhook

TYPES = "demo_operator/api/v1/example_types.py"
FULL = webhook(
    webhook(api(api(EMPTY), version="v1beta1"), defaulting=True, validation=True), conversion=True, spoke=["v1beta1"]
)


def line_up(root, project, **options):
    return update_files(root, project, manifests=False, **options)


def newer(root, templates, **options):
    return update(root, templates=templates, manifests=False, **options)


def edit_file(root, path, old, new):
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new))


@pytest.mark.slow
def test_a_new_project_lints_and_its_manifests_can_be_made(tmp_path):
    made(tmp_path / "new", FULL)
    assert lint(tmp_path / "new") == ""
    assert broken(tmp_path / "new") == ""


def test_names_of_any_length_are_formatted_as_the_projects_own_linter_wants_them(tmp_path):
    kind = "A" + "veryLongKindOfAThing" * 2 + "Abcdefgh"
    project = replace(EMPTY, name="a" * 63, package="a_package_with_a_very_long_name_indeed")
    project = webhook(webhook(api(api(project, kind=kind), kind, "v2"), kind, defaulting=True, validation=True),
                      kind, conversion=True, spoke=["v2"])  # fmt: skip
    made(tmp_path / "new", replace(project, name=EMPTY.name))
    assert lint(tmp_path / "new") == ""


def test_delete_undoes_create(tmp_path):
    root = made(tmp_path / "p")
    before = tree(root)
    line_up(root, FULL)
    assert tree(root) != before
    line_up(root, delete_webhook(FULL, WebhookOptions("apps", "v1", "Example")))
    line_up(root, delete_api(open_project(root), "apps", "v1beta1", "Example"))
    line_up(root, delete_api(open_project(root), "apps", "v1", "Example"))
    assert tree(root) == before


def test_what_was_written_by_hand_stays_when_a_kind_is_added(tmp_path):
    root = made(tmp_path / "p", api(EMPTY))
    edit_file(root, TYPES, "foo: str | None = None", "size: int = 1")
    edit_file(root, "Makefile", "help: ##", "mine: ## Mine\n\ttrue\n\nhelp: ##")
    (root / "README.md").unlink()
    outcome = line_up(root, api(api(EMPTY), kind="Other"))
    assert "size: int = 1" in (root / TYPES).read_text()
    assert "mine: ## Mine" in (root / "Makefile").read_text()
    assert outcome.kept == ("README.md",)
    assert not (root / "README.md").exists()


@pytest.mark.slow
def test_a_second_webhook_leaves_the_first_as_its_owner_wrote_it(tmp_path):
    root = made(tmp_path / "p", webhook(api(EMPTY), defaulting=True))
    path = "demo_operator/webhooks/example_v1_defaulting.py"
    edit_file(root, path, "    return None", "    return example if example.metadata.labels else None")
    line_up(root, webhook(open_project(root), validation=True))
    assert "metadata.labels" in (root / path).read_text()
    assert broken(root) == ""


def test_both_sides_changes_of_a_file_are_merged(tmp_path):
    root = made(tmp_path / "p", api(EMPTY))
    edit_file(root, "README.md", "# demo\n", "# The demo\n")
    outcome = line_up(root, api(open_project(root), kind="Other"))
    readme = (root / "README.md").read_text()
    assert readme.startswith("# The demo\n")
    assert "| Other |" in readme
    assert "README.md" in outcome.merged


def test_a_changed_file_is_deleted_only_when_that_is_said(tmp_path):
    root = made(tmp_path / "p", api(EMPTY))
    edit_file(root, TYPES, "foo", "bar")
    before = tree(root)
    with pytest.raises(ScaffoldError, match=r"example_types\.py was changed after it was generated"):
        line_up(root, EMPTY)
    assert tree(root) == before
    line_up(root, EMPTY, force=True)
    assert not (root / "demo_operator/api/v1").exists()


def test_a_file_of_the_same_name_is_not_overwritten(tmp_path):
    root = made(tmp_path / "p")
    (root / TYPES).parent.mkdir(parents=True)
    (root / TYPES).write_text("mine")
    before = tree(root)
    with pytest.raises(ScaffoldError, match="exists already, and was not generated"):
        line_up(root, api(EMPTY))
    assert tree(root) == before


def test_init_keeps_what_a_directory_holds(tmp_path):
    (tmp_path / "LICENSE").write_text("mine")
    made(tmp_path)
    assert (tmp_path / "LICENSE").read_text() == "mine"
    with pytest.raises(ScaffoldError, match="has a project already"):
        made(tmp_path)


def test_init_overwrites_only_when_that_is_said(tmp_path):
    (tmp_path / "Makefile").write_text("mine")
    with pytest.raises(ScaffoldError, match=r"would be overwritten: Makefile"):
        made(tmp_path)
    assert list(tree(tmp_path)) == ["Makefile"]
    made(tmp_path, force=True)
    assert (tmp_path / "Makefile").read_text() != "mine"


def test_a_directory_without_a_project_says_so(tmp_path):
    with pytest.raises(ScaffoldError, match="steersman init"):
        open_project(tmp_path)


class TestUpdate:
    HEADING = ("README.md.jinja", "## Develop", "## How to develop")

    def test_newer_templates_are_merged_and_what_was_written_stays(self, tmp_path):
        root = made(tmp_path / "p", api(EMPTY))
        edit_file(root, "README.md", "# demo\n", "# The demo\n")
        committed(root)
        outcome = newer(root, newer_templates(tmp_path, self.HEADING))
        readme = (root / "README.md").read_text()
        assert readme.startswith("# The demo\n")
        assert "## How to develop" in readme
        assert outcome.changed == outcome.merged == ("README.md",)

    @pytest.mark.slow
    @pytest.mark.parametrize("edited", [False, True])
    def test_samples_of_older_templates_are_made_of_the_types_unless_they_were_edited(self, tmp_path, edited):
        old = tmp_path / "templates"
        shutil.copytree(TEMPLATES, old)
        folder = old / "api" / "config" / "samples"
        folder.mkdir(parents=True)
        text = "apiVersion: {{ api_version }}\nkind: {{ kind }}\nmetadata:\n  name: old\n"
        (folder / "{{ sample }}.yaml.jinja").write_text(text)
        root = made(tmp_path / "project", api(EMPTY), templates=old)
        sample = root / "config" / "samples" / "apps_v1_example.yaml"
        assert sample.exists()
        if edited:
            sample.write_text(sample.read_text() + "spec: {foo: mine}\n")
        update(committed(root))
        found = yaml.safe_load(sample.read_text())
        assert found["metadata"]["name"] == ("old" if edited else "example-sample")
        assert found["spec"] == ({"foo": "mine"} if edited else {})

    def test_a_second_update_does_nothing(self, tmp_path):
        root = committed(made(tmp_path / "p", api(EMPTY)))
        templates = newer_templates(tmp_path, self.HEADING)
        newer(root, templates)
        git(root, "commit", "-qam", "updated")
        assert newer(root, templates).changed == ()
        assert git(root, "status", "--porcelain") == ""

    def test_a_file_that_templates_no_longer_make_goes(self, tmp_path):
        root = committed(made(tmp_path / "p"))
        templates = newer_templates(tmp_path)
        next(templates.rglob("settings.json.jinja")).unlink()
        assert newer(root, templates).removed == (".vscode/settings.json",)

    def test_uncommitted_changes_are_refused(self, tmp_path):
        root = committed(made(tmp_path / "p"))
        (root / "new.txt").write_text("")
        with pytest.raises(ScaffoldError, match=r"uncommitted changes \(new.txt\)"):
            newer(root, newer_templates(tmp_path, self.HEADING))

    def test_a_project_outside_git_is_refused_without_force(self, tmp_path, monkeypatch):
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
        root = made(tmp_path / "p")
        templates = newer_templates(tmp_path, self.HEADING)
        with pytest.raises(ScaffoldError, match="not in a git repository"):
            newer(root, templates)
        assert newer(root, templates, force=True).changed == ("README.md",)

    def test_a_conflict_changes_nothing_unless_markers_are_wanted(self, tmp_path):
        root = made(tmp_path / "p")
        edit_file(root, "README.md", "## Develop", "## Hack")
        before = tree(committed(root))
        templates = newer_templates(tmp_path, self.HEADING)
        with pytest.raises(ScaffoldError, match=r"README\.md was changed by both sides"):
            newer(root, templates)
        assert tree(root) == before
        assert newer(root, templates, markers=True).conflicts == ("README.md",)
        assert "<<<<<<< yours\n## Hack" in (root / "README.md").read_text()

    def test_an_older_steersman_does_not_take_a_newer_project_back(self, tmp_path):
        root = committed(made(tmp_path / "p"))
        edit_file(root, "PROJECT", f"cliVersion: {EMPTY.version}", "cliVersion: 99.0.0")
        with pytest.raises(ScaffoldError, match=r"was created with Steersman 99\.0\.0"):
            newer(root, newer_templates(tmp_path))

    def test_a_lost_record_costs_nothing_while_the_templates_are_the_same(self, tmp_path):
        root = made(tmp_path / "p", api(EMPTY))
        (root / RECORD).unlink()
        committed(root)
        assert newer(root, newer_templates(tmp_path)).created == ()
        assert (root / RECORD).exists()

    def test_the_lock_file_is_its_owners(self, tmp_path):
        root = made(tmp_path / "p")
        assert "steersman==" in (root / "requirements.lock").read_text()
        (root / "requirements.lock").write_text("mine\n")
        line_up(root, api(EMPTY))
        assert (root / "requirements.lock").read_text() == "mine\n"


class TestAllOrNothing:
    @pytest.mark.parametrize("stopped_at", range(0, 12, 3))
    @pytest.mark.parametrize("how", [KeyboardInterrupt, PermissionError])
    def test_what_is_stopped_half_way_is_undone(self, tmp_path, stopped_at, how):
        root = made(tmp_path / "p", FULL)
        before = tree(root)
        left = stopped_at

        def rename(old, new):
            nonlocal left
            left -= 1
            if left < 0:
                raise how(13, "Permission denied", str(new))
            os.replace(old, new)

        write = {f"a/{n}.txt": "new" for n in range(10)} | {"Makefile": "new", "PROJECT": "new"}
        with pytest.raises((KeyboardInterrupt, ScaffoldError)):
            write_transaction(root, write, ["README.md"], rename=rename)
        assert tree(root) == before
        assert not (root / "a").exists()

    def test_what_a_power_cut_left_is_undone_by_the_next_command(self, tmp_path, monkeypatch):
        root = made(tmp_path / "p")
        before = tree(root)

        def cut(_root):
            raise RuntimeError("the power is off, and nothing is undone")

        def rename(old, new):
            os.replace(old, new)
            if new.name == "PROJECT":
                raise KeyboardInterrupt

        with monkeypatch.context() as off:
            off.setattr("steersman.scaffold.transaction._undo", cut)
            with pytest.raises(RuntimeError):
                write_transaction(root, {"Makefile": "new", "PROJECT": "new", "z": "new"}, ["README.md"], rename=rename)
        assert (root / "PROJECT").read_text() == "new"
        assert open_project(root) == EMPTY
        assert tree(root) == before
        assert not recover(root)

    def test_init_that_fails_leaves_no_directory(self, tmp_path):
        with pytest.raises(KeyboardInterrupt):
            write_transaction(
                tmp_path / "a" / "b", {"x": "1"}, rename=lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
            )
        assert list(tmp_path.iterdir()) == []

    def test_nothing_is_written_through_a_link_out_of_the_project(self, tmp_path):
        root = made(tmp_path / "p")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (root / "demo_operator" / "api" / "v1").symlink_to(elsewhere)
        with pytest.raises(ScaffoldError, match="place outside the project"):
            line_up(root, api(EMPTY))
        assert list(elsewhere.iterdir()) == []

    def test_a_directory_in_the_place_of_a_file_is_named(self, tmp_path):
        root = made(tmp_path / "p")
        (root / TYPES).mkdir(parents=True)
        before = tree(root)
        with pytest.raises(ScaffoldError, match=r"example_types\.py"):
            line_up(root, api(EMPTY))
        assert tree(root) == before

    def test_a_file_in_the_place_of_a_directory_is_named(self, tmp_path):
        root = made(tmp_path / "p")
        (root / "demo_operator" / "api" / "v1").write_text("")
        with pytest.raises(ScaffoldError, match="must be a directory"):
            line_up(root, api(EMPTY))

    def test_a_file_that_is_no_text_is_named(self, tmp_path):
        root = made(tmp_path / "p")
        (root / "README.md").write_bytes(b"\xff\xfe")
        with pytest.raises(ScaffoldError, match=r"README\.md is not UTF-8 text"):
            line_up(root, api(EMPTY))

    def test_a_spoiled_record_is_named(self, tmp_path):
        root = made(tmp_path / "p")
        (root / RECORD).write_text(json.dumps([1]))
        with pytest.raises(ScaffoldError, match=r"base\.json cannot be read"):
            line_up(root, api(EMPTY))

    def test_a_file_keeps_its_mode(self, tmp_path):
        root = made(tmp_path / "p")
        (root / "README.md").chmod(0o755)
        line_up(root, api(EMPTY))
        assert (root / "README.md").stat().st_mode & 0o777 == 0o755

    def test_nothing_of_ours_stays_but_the_record(self, tmp_path):
        root = made(tmp_path / "p", FULL)
        assert [p.name for p in (root / PRIVATE).iterdir()] == ["base.json"]
