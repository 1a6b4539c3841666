"""`steersman docs`: an API reference from the types."""

from __future__ import annotations

import re
import sys

import pytest
import yaml

from steersman.cli.dispatch import run
from steersman.manifests import crds
from steersman.manifests.reference import foreign_types, reference
from tests.manifests import broad, golden_types

APP = '''
from typing import Annotated

from steersman import Context, Model, Operator, Resource
from steersman.models.markers import MinLength, Pattern


class Page(Model):
    """One page."""

    path: Annotated[str, Pattern("^/(a|b)$")]
    """Where it is."""


class SiteSpec(Model):
    colour: Annotated[str, MinLength(1)] = "blue"
    """The colour.

    Of all of it.
    """
    pages: tuple[Page, ...] = ()


class Site(Resource, group="docs.steersman.dev", version="v1", short_names=("st",)):
    """A web site."""

    spec: SiteSpec


operator = Operator("sites")
empty = Operator("empty")


@operator.controller
async def reconcile(site: Site, ctx: Context) -> None: ...
'''


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "documented.py").write_text(APP)

    def call(*words):
        with pytest.raises(SystemExit) as ended:
            run(["docs", *map(str, words)])
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    yield call
    sys.modules.pop("documented", None)


def test_every_field_is_told_with_its_type_default_and_words(command):
    code, out, _ = command("documented:operator", "--title", "Sites")
    assert code == 0
    assert out.startswith("# Sites\n\n- [Site](#site-docssteersmandevv1) `docs.steersman.dev/v1`\n")
    assert "A web site.\n\nkubectl knows it as `sites`, `st`. It belongs to one namespace.\n" in out
    assert '| `colour` | string | The colour.<br>Of all of it.<br>Default: `"blue"`.<br>At least 1 character. |' in out
    assert "| `path` | string | **required**<br>Where it is.<br>Matches `^/(a\\|b)$`. |" in out


def test_every_link_leads_to_a_heading():
    classes = [broad.Broad, *golden_types.KINDS]
    text = reference(crds(classes), foreign_types(classes))
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line[:1] == "#"
    }
    links = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert links
    assert links <= headings


def test_kubernetes_own_types_are_named_and_not_repeated():
    text = reference(crds([broad.Broad]), foreign_types([broad.Broad]))
    assert "| `template` | PodTemplateSpec (Kubernetes) |" in text
    assert "terminationGracePeriodSeconds" not in text
    assert "| `conditions` | list of Condition (Kubernetes) | Unique by `type`. |" in text


def test_a_deprecated_version_says_so():
    assert "**Deprecated:** use v2." in reference(crds([broad.V1, broad.V2]))


def test_missing_docstrings_are_told_with_file_and_line(command, tmp_path):
    code, _, err = command("documented:operator", "--strict")
    assert code == 1
    line = next(i for i, text in enumerate(APP.split("\n"), 1) if "pages: tuple" in text)
    assert f"{tmp_path}/documented.py:{line}: SiteSpec.pages: the field has no docstring" in err
    assert "SiteSpec.colour" not in err
    assert "Page.path" not in err


def test_the_file_is_kept_up_to_date(command, tmp_path):
    assert command("documented:operator", "-o", "docs/api.md")[1] == "docs/api.md: created\n"
    assert command("documented:operator", "-o", "docs/api.md", "--check")[:2] == (0, "docs/api.md is up to date\n")
    (tmp_path / "docs/api.md").write_text("old")
    code, out, _ = command("documented:operator", "-o", "docs/api.md", "--check")
    assert (code, out) == (1, "docs/api.md differs\n")
    assert command("documented:operator", "-o", "docs/api.md")[1] == "docs/api.md: changed\n"


def test_crds_in_files_are_documented_too(command, tmp_path):
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump_all(crds([golden_types.Memcached])))
    code, out, _ = command("--crd", "crd.yaml")
    assert code == 0
    assert "| `size` | integer | At least 1.<br>At most 3. |" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name an operator, or CRDs with --crd"),
        (["documented:empty"], "reconciles no kind of its own"),
        (["--crd", "nothing.yaml"], "there is no such file"),
        (["documented:operator", "--check"], "name it with -o"),
        (["documented:operator", "-o", "documented.py/x.md"], "documented.py"),
    ],
)
def test_bad_input_is_one_clear_message(command, words, message):
    code, _, err = command(*words)
    assert code in (1, 2)
    assert message in err
    assert "Traceback" not in err
