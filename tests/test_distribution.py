"""The published files: the source distribution, the metadata, and links that work on a package index."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from steersman.version import __version__

ROOT = Path(__file__).parents[1]
CLUSTER = ROOT / "packages" / "steersman-cluster"
MAX_INSTALLED_BYTES = 60_000_000
_BLOB = re.compile(r"https://github\.com/steersman/steersman/(?:blob|tree)/main/([^\s)#]+)")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = out.glob("*.tar.gz")
    return made


@pytest.mark.parametrize("readme", ["README.md", "packages/steersman-cluster/README.md"])
def test_every_link_of_a_readme_is_absolute_and_leads_to_a_file(readme: str):
    text = (ROOT / readme).read_text()
    assert not re.findall(r"\]\((?!https://)[^)]*\)", text)
    defined = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.MULTILINE))
    assert defined
    assert [path for path in _BLOB.findall(text) if not (ROOT / path).exists()] == []


def test_the_changelog_has_the_form_of_keep_a_changelog():
    headings = re.findall(r"^(##+) (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    versions = [text for marks, text in headings if marks == "##"]
    assert versions[0].startswith(__version__)
    assert [
        text for text in versions if not re.fullmatch(r"\d+\.\d+\.\d+ \((unreleased|\d{4}-\d\d-\d\d)\)", text)
    ] == []
    kinds = {text for marks, text in headings if marks == "###"}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.parametrize("name", ["SECURITY.md", "VERSIONING.md", "RELEASE.md", ".pre-commit-config.yaml"])
def test_a_contributor_finds_the_rules(name: str):
    assert (ROOT / name).stat().st_size > 200


def test_both_distributions_name_the_same_places_and_pythons():
    framework = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cluster = tomllib.loads((CLUSTER / "pyproject.toml").read_text())["project"]
    assert cluster["urls"].keys() >= {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    pythons = [[c for c in one["classifiers"] if "Python ::" in c] for one in (framework, cluster)]
    assert pythons[0] == pythons[1]
    assert framework["requires-python"] == cluster["requires-python"]


def test_the_source_distribution_has_what_a_build_needs_and_no_benchmark_data(sdist: Path):
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    for wanted in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src/steersman/__init__.py"):
        assert wanted in names
    assert [name for name in names if name.startswith(("benchmarks", "tests", "operators"))] == []


def test_the_metadata_names_the_places_that_a_package_index_shows(sdist: Path):
    with tarfile.open(sdist) as archive:
        (info,) = [member for member in archive.getmembers() if member.name.endswith("/PKG-INFO")]
        content = archive.extractfile(info)
        assert content is not None
        metadata = Parser().parsestr(content.read().decode())
    labels = {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])}
    assert labels >= {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_classifiers_name_every_python_from_the_oldest_supported_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    minors = [int(version.partition(".")[2]) for version in listed]
    oldest = int(project["requires-python"].partition("3.")[2])
    assert minors == list(range(oldest, oldest + len(minors)))


@pytest.mark.slow
def test_the_core_installation_takes_less_than_60_megabytes():
    sys.path.insert(0, str(ROOT / "hack"))
    try:
        from installed_size import sizes
    finally:
        sys.path.pop(0)
    found = sizes()
    assert found["zstandard"] > 1_000_000, "the packages are measured"
    assert sum(found.values()) < MAX_INSTALLED_BYTES, found


def test_the_distributions_have_one_version_and_depend_on_each_other_in_that_version():
    framework = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cluster = tomllib.loads((CLUSTER / "pyproject.toml").read_text())["project"]
    assert cluster["version"] == __version__
    assert f"steersman=={__version__}" in cluster["dependencies"]
    assert f"steersman-cluster=={__version__}" in framework["optional-dependencies"]["dev"]
    assert not [name for name in framework["dependencies"] if name.startswith("steersman-cluster")]


def test_every_extra_that_a_message_names_exists_and_installs_what_the_message_says():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked: set[str] = set()
    for path in (ROOT / "src" / "steersman").rglob("*.py"):
        for _, extra, modules in re.findall(r'\brequire\((.+?), "([a-z]+)", ((?:"[\w.]+"(?:, )?)*)', path.read_text()):
            asked.add(extra)
            listed = " ".join(extras[extra])
            named = [module.partition(".")[0].replace("_", "-") for module in re.findall(r'"([\w.]+)"', modules)]
            assert [name for name in named if name not in listed] == [], path
    assert asked >= {"aiohttp", "cli", "dev", "proxy"}


def test_the_wheel_of_the_cluster_has_its_command_and_its_data(tmp_path: Path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=CLUSTER, check=True, capture_output=True)
    (made,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
        (scripts,) = [name for name in names if name.endswith("entry_points.txt")]
        assert "steersman-cluster = steersman_cluster.cli:main" in archive.read(scripts).decode()
    packaged = {path.relative_to(CLUSTER / "src").as_posix() for path in (CLUSTER / "src").rglob("*.json")}
    assert packaged <= set(names)
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"steersman_cluster"}


def test_the_framework_imports_the_cluster_only_in_commands_and_the_test_kit():
    users: set[str] = set()
    for path in (ROOT / "src" / "steersman").rglob("*.py"):
        if re.search(r"^\s*(?:from|import) steersman_cluster\b", path.read_text(), re.MULTILINE):
            users.add(path.relative_to(ROOT / "src" / "steersman").parts[0])
    assert users == {"cli", "testing"}


def test_the_commands_start_without_the_cluster(tmp_path: Path):
    program = "import sys; sys.modules['steersman_cluster'] = None; from steersman.cli import main; main()"
    for words in (["--help"], ["run", "--help"], ["version"]):
        done = subprocess.run([sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["EmbeddedCluster", "Simulation"])
def test_the_test_kit_without_the_cluster_names_the_command_that_installs_it(name: str, tmp_path: Path):
    program = f"import sys; sys.modules['steersman_cluster'] = None; from steersman.testing import {name}"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert f"steersman.testing.{name} needs steersman-cluster, which is not installed" in done.stderr
    assert "pip install 'steersman[dev]'" in done.stderr
