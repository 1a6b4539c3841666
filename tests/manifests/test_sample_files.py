"""Samples in `config/samples`: made of what a kind requires, made anew when it changes, and left alone once edited."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from steersman.manifests import crds
from steersman.manifests.samples import sample
from steersman.models import decode, encode
from tests.manifests import sample_kinds

APP = """
from steersman import Context, Model, Operator, Resource

class Spec(Model):
    size: int = 1

class CrewSpec(Model):
    captain: str
    size: int = 3

class Ship(Resource, group="fleet.example.com", version="v1"):
    spec: Spec

class ShipV2(Resource, group="fleet.example.com", version="v2", kind="Ship", storage=False):
    spec: CrewSpec

operator = Operator("fleet")

@operator.controller
async def reconcile(ship: Ship, ctx: Context) -> None: ...

@operator.converter
def up(old: Ship) -> ShipV2: ...

@operator.converter
def down(new: ShipV2) -> Ship: ...
"""
Command = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    (tmp_path / "fleetapp.py").write_text(APP)

    def call(*words: str) -> tuple[Any, str, str]:
        # A process of its own: the kinds of a module stay known to the process that imported it.
        done = subprocess.run(
            [sys.executable, "-B", "-m", "steersman", "manifests", "fleetapp:operator", *words],
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    return tmp_path / "config" / "samples"


@pytest.mark.slow
def test_each_version_has_a_sample_of_its_own_name_with_what_it_requires(command: Command, samples: Path) -> None:
    assert command()[0] == 0
    one, two = samples / "fleet_v1_ship.yaml", samples / "fleet_v2_ship.yaml"
    assert yaml.safe_load(one.read_text()) == {
        "apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "ship-sample"}, "spec": {},
    }  # fmt: skip
    assert yaml.safe_load(two.read_text()) == {
        "apiVersion": "fleet.example.com/v2", "kind": "Ship", "metadata": {"name": "ship-v2-sample"},
        "spec": {"captain": "example"},
    }  # fmt: skip
    kustomization = yaml.safe_load((samples / "kustomization.yaml").read_text())
    assert kustomization["resources"] == [one.name, two.name]
    assert command("--check")[0] == 0


@pytest.mark.slow
def test_a_sample_follows_its_type_until_somebody_edits_it(command: Command, samples: Path, tmp_path: Path) -> None:
    command()
    edited = samples / "fleet_v2_ship.yaml"
    edited.write_text(edited.read_text().replace("captain: example", "captain: Ahab"))
    (tmp_path / "fleetapp.py").write_text(APP.replace("size: int = 1", "size: int").replace("captain", "master"))

    assert command("--check")[0] == 1
    out = command()[1]
    assert "fleet_v1_ship.yaml: changed" in out
    assert "fleet_v2_ship.yaml" not in out
    assert yaml.safe_load((samples / "fleet_v1_ship.yaml").read_text())["spec"] == {"size": 1}
    assert yaml.safe_load(edited.read_text())["spec"] == {"captain": "Ahab"}
    assert command("--check")[0] == 0


@pytest.mark.slow
def test_a_sample_under_another_name_is_the_only_one_of_its_version(command: Command, samples: Path) -> None:
    samples.mkdir(parents=True)
    mine = {"apiVersion": "fleet.example.com/v2", "kind": "Ship", "metadata": {"name": "pequod"}}
    (samples / "pequod.yaml").write_text(yaml.safe_dump(mine))
    (samples / "notes.yaml").write_text("neither: [a, manifest\n")
    command()
    assert sorted(path.name for path in samples.iterdir()) == [
        "fleet_v1_ship.yaml", "kustomization.yaml", "notes.yaml", "pequod.yaml",
    ]  # fmt: skip
    kustomization = yaml.safe_load((samples / "kustomization.yaml").read_text())
    assert kustomization["resources"] == ["fleet_v1_ship.yaml", "pequod.yaml"]


@pytest.mark.slow
def test_a_sample_goes_with_its_version_unless_it_was_edited(command: Command, samples: Path, tmp_path: Path) -> None:
    command()
    (tmp_path / "fleetapp.py").write_text(APP.replace('version="v2"', 'version="v3"'))
    assert "fleet_v2_ship.yaml: removed" in command()[1]
    edited = samples / "fleet_v3_ship.yaml"
    edited.write_text(edited.read_text() + "# mine\n")
    (tmp_path / "fleetapp.py").write_text(APP)
    command()
    assert edited.exists()


@pytest.mark.parametrize("kind", sample_kinds.ALL, ids=lambda kind: kind.__name__)
def test_a_sample_is_valid_whatever_its_type_requires(kind: Any, cluster: Any) -> None:
    (crd,) = crds([kind])
    made = sample(crd, "v1")
    assert decode(kind, encode(made)) is not None
    try:
        cluster.apply(crd, made)
    finally:
        cluster.delete("crd", crd["metadata"]["name"])
