"""A marker or class argument that is wrong is one line with file and line of the user, and no traceback."""

from __future__ import annotations

import sys

import pytest

from steersman.cli.dispatch import run

APP = """{first}
from typing import Annotated
from steersman import Column, Context, Model, Operator, Resource, Scale
from steersman.models.markers import CEL, AtMostOneOf, Format, Ge, ListMap, MinLength, Pattern, Selectable, Set

class SiteSpec(Model):
    colour: str = ""
    {field}

class Site(Resource, group="markers.steersman.dev", version="v1"{argument}):
    spec: SiteSpec = SiteSpec()

operator = Operator("sites")

@operator.controller()
async def reconcile(site: Site, ctx: Context) -> None: ...
"""
SPEC_LINE, FIELD_LINE, CLASS_LINE = 6, 8, 10


@pytest.fixture
def refused(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(field="", argument="", first=""):
        file = tmp_path / "marked_app.py"
        file.write_text(APP.format(field=field, argument=argument, first=first))
        with pytest.raises(SystemExit) as ended:
            run(["manifests", "marked_app:operator", "-o", "out"])
        out, err = capsys.readouterr()
        assert (ended.value.code, out) == (1, "")
        assert "Traceback" not in err
        assert "unexpected error" not in err
        return err.removeprefix("error: ").replace(f"{tmp_path}/", "").rstrip("\n")

    yield call
    sys.modules.pop("marked_app", None)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("a: Annotated[tuple[str, ...], ListMap()] = ()", "ListMap: at least one key is needed"),
        ("a: Annotated[tuple[str, ...], ListMap(3)] = ()", "ListMap: a key is a string, not 3"),
        ("__rules__ = (AtMostOneOf('colour'),)", "AtMostOneOf: at least two field names are needed"),
        ("a: Annotated[str, MinLength('x')] = ''", "MinLength: the size is a whole number of at least 0, not 'x'"),
        ("a: Annotated[str, MinLength(-3)] = ''", "MinLength: the size is a whole number of at least 0, not -3"),
        ("a: Annotated[int, Ge('x')] = 0", "Ge: a bound is a number, not 'x'"),
        ("a: Annotated[int, Ge()] = 0", "Ge: missing 1 required positional argument: 'bound'"),
        ("a: Annotated[str, Pattern(None)] = ''", "Pattern: a pattern is a string, not None"),
        ("a: Annotated[str, Format(3)] = ''", "Format: a format is a string, not 3"),
        ("a: Annotated[int, CEL()] = 0", "CEL: missing 1 required positional argument: 'rule'"),
        ("a: Annotated[int, CEL(3)] = 0", "CEL: a rule is a string, not 3"),
        ("a: Annotated[int, CEL('true', text='no')] = 0", "CEL: got an unexpected keyword argument 'text'"),
        ("a: Annotated[str, Selectable()] = ''", "Selectable takes no arguments: write Annotated[…, Selectable]"),
        ("a: Set[str] = ()", "Set is a marker and no type: write Annotated[…, Set]"),
        ("a: Annotated[int, Ge] = 0", "SiteSpec.a: Ge needs arguments: write Ge(…)"),
        ("a: Annotated[tuple[str, ...], ListMap] = ()", "SiteSpec.a: ListMap needs arguments"),
    ],
)  # fmt: skip
def test_a_bad_marker_is_an_error_with_file_and_line(refused, field, words):
    assert refused(field).startswith(f"marked_app.py:{FIELD_LINE}: {words}")


def test_a_pattern_that_re2_refuses_is_an_error_with_the_file_and_line_of_its_class(refused):
    told = refused("a: Annotated[str, Pattern('(')] = ''")
    assert told.startswith(f"marked_app.py:{SPEC_LINE}: class SiteSpec: field 'a': Pattern('('): missing closing )")


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (", colour='red'", "class Site: there is no class argument 'colour'"),
        (", plural=3", "class Site: plural: Expected `str`, got `int`"),
        (", short_names='st'", "class Site: short_names='st' must be a list or tuple"),
        (", columns=Column('A', 'spec.a')", "class Site: columns=Column("),
        (", columns=['spec.colour']", "class Site: columns[0]: Expected `object`, got `str`"),
        (", columns=[Column('A')]", "Column: Missing required argument 'path'"),
        (", columns=[Column('A', 'spec.colour', priority='high')]", "class Site: priority: Expected `int`, got `str`"),
        (", scale='spec.size'", "class Site: scale: Expected `object | null`, got `str`"),
        (", scale=Scale('spec.size')", "Scale: Missing required argument 'status'"),
        (", storage='yes'", "class Site: storage: Expected `bool`, got `str`"),
        (", deprecated=True", "class Site: deprecated: Expected `str | null`, got `bool`"),
        (", plural='Sites'", "class Site: plural='Sites' must be a lower-case DNS label"),
    ],
)
def test_a_bad_class_argument_is_an_error_with_file_and_line(refused, argument, words):
    assert refused(argument=argument).startswith(f"marked_app.py:{CLASS_LINE}: {words}")


def test_a_bad_marker_in_an_annotation_that_is_evaluated_late_names_its_class(refused):
    told = refused("a: Annotated[int, Ge('x')] = 0", first="from __future__ import annotations")
    assert told == (
        f"marked_app.py:{SPEC_LINE}: SiteSpec: its annotations cannot be read: Ge: a bound is a number, not 'x'"
    )
