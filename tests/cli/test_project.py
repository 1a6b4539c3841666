"""The default operator of a command is that of the project, in the project's directory only."""

import pytest

from steersman.cli.operator_loader import LoadError
from steersman.cli.project import project_operator


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_projects_operator_is_the_one_that_its_package_exports(here):
    (here / "PROJECT").write_text("projectName: demo\npackage: demo_operator\n")
    assert project_operator() == "demo_operator:operator"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "only in a project's directory"),
        ("[", "PROJECT cannot be read"),
        ("- a\n", "names no package"),
        ("package: ''\n", "names no package"),
        ("domain: example.com\n", "names no package"),
    ],
)
def test_without_a_project_the_way_out_is_told(here, content, words):
    if content is not None:
        (here / "PROJECT").write_text(content)
    with pytest.raises(LoadError, match=words):
        project_operator()
