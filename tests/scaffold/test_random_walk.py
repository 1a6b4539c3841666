"""A project's life in random order: whatever is created, changed, deleted and updated, it is never broken."""

import os
import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from steersman.scaffold import (
    ApiOptions,
    ScaffoldError,
    WebhookOptions,
    create_api,
    create_webhook,
    delete_api,
    delete_webhook,
    edit,
    open_project,
    update,
    update_files,
)
from steersman.scaffold.render import TEMPLATES
from steersman.scaffold.transaction import PRIVATE

from .projects import broken, lint, made, newer_templates, tree

GROUPS = st.sampled_from(["apps", "infra"])
VERSIONS = st.sampled_from(["v1alpha1", "v1beta1", "v1"])
KINDS = st.sampled_from(["HelloApp", "Class", "TestRun", "Policy"])
EXAMPLES = int(os.environ.get("STEERSMAN_SCAFFOLD_EXAMPLES", "3"))
MINE = "\n\ndef mine_{n}() -> int:\n    return {n}\n"


class Life(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="steersman-life-"))
        self.root = made(self.home / "p")
        self.newer = newer_templates(self.home, ("README.md.jinja", "## Develop", "## How to develop"))
        self.templates = TEMPLATES
        self.mine: dict[str, str] = {}

    def teardown(self):
        try:
            assert lint(self.root) == ""
            assert broken(self.root) == ""
        finally:
            shutil.rmtree(self.home)

    @initialize(several=st.booleans())
    def several_groups(self, several):
        self.do(
            lambda project: edit(
                project, multigroup=several, namespaced=None, description=None, license=None, owner=None
            )
        )

    @rule(
        group=GROUPS, version=VERSIONS, kind=KINDS, namespaced=st.sampled_from([None, True, False]), force=st.booleans()
    )
    def create_api(self, group, version, kind, namespaced, force):
        self.do(
            lambda project: create_api(project, ApiOptions(group, version, kind, namespaced=namespaced, force=force))
        )

    @rule(group=GROUPS, version=VERSIONS, kind=KINDS, name=st.sampled_from(["canary", "policy", ""]))
    def create_controller(self, group, version, kind, name):
        self.do(lambda p: create_api(p, ApiOptions(group, version, kind, resource=False, controller_name=name)))

    @rule(kind=st.sampled_from([("core", "v1", "Pod"), ("apps", "v1", "Deployment")]))
    def create_for_builtin(self, kind):
        self.do(lambda project: create_api(project, ApiOptions(*kind, resource=False)))
        self.do(lambda project: create_webhook(project, WebhookOptions(*kind, defaulting=True)))

    @rule(group=GROUPS, version=VERSIONS, kind=KINDS, which=st.integers(1, 7), spoke=st.lists(VERSIONS, max_size=2))
    def create_webhook(self, group, version, kind, which, spoke):
        wish = WebhookOptions(group, version, kind, bool(which & 1), bool(which & 2), bool(which & 4), spoke)
        self.do(lambda project: create_webhook(project, wish))

    @rule(group=GROUPS, version=VERSIONS, kind=KINDS, which=st.integers(0, 7), force=st.booleans())
    def delete_webhook(self, group, version, kind, which, force):
        wish = WebhookOptions(group, version, kind, bool(which & 1), bool(which & 2), bool(which & 4))
        self.do(lambda project: delete_webhook(project, wish), force=force)

    @rule(group=GROUPS, version=VERSIONS, kind=KINDS, force=st.booleans())
    def delete_api(self, group, version, kind, force):
        self.do(lambda project: delete_api(project, group, version, kind), force=force)

    @rule(owner=st.sampled_from(["", "Ann", "Bob"]))
    def edit(self, owner):
        self.do(lambda p: edit(p, multigroup=None, namespaced=None, description=None, license=None, owner=owner))

    @rule(seed=st.integers(0, 10**6))
    def write_something(self, seed):
        """The owner adds a function to a module that exists."""
        modules = sorted(p for p in (self.root / "demo_operator").rglob("*_*.py") if "__init__" not in p.name)
        if modules:
            path = random.Random(seed).choice(modules)
            text = MINE.format(n=seed)
            if f"mine_{seed}" not in path.read_text():
                path.write_text(path.read_text() + text)
                self.mine[path.relative_to(self.root).as_posix()] = text

    @rule(new=st.booleans())
    def update(self, new):
        self.templates = self.newer if new else TEMPLATES
        before = tree(self.root)
        try:
            update(self.root, force=True, templates=self.templates, manifests=False)
        except ScaffoldError:
            assert tree(self.root) == before
        assert f"## {'How to develop' if new else 'Develop'}" in (self.root / "README.md").read_text()

    def do(self, wish, *, force=False):
        before = tree(self.root)
        try:
            project = wish(open_project(self.root))
            update_files(self.root, project, force=force, templates=self.templates, manifests=False)
        except ScaffoldError:
            assert tree(self.root) == before
        else:
            assert open_project(self.root) == project
            if force:
                self.mine = {path: text for path, text in self.mine.items() if (self.root / path).exists()}

    @invariant()
    def what_was_written_is_there(self):
        for path, text in self.mine.items():
            assert text in (self.root / path).read_text()

    @invariant()
    def nothing_half_written_lies_about(self):
        assert [p.name for p in (self.root / PRIVATE).iterdir()] == ["base.json"]


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=10, deadline=None, derandomize=True, print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
