"""`steersman install`, `deploy` and their opposites on a cluster: output, applied objects, pruned objects."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.cli.dispatch import run
from steersman.cli.installation.apply_set import set_id
from steersman.cli.installation.rollout import RolloutError, rolled_out
from steersman.testing import ControlPlane, EmbeddedCluster
from steersman_cluster.cluster import DevCluster

APP = (Path(__file__).parents[1] / "manifests/shipped_app.py").read_text()
Command = Callable[..., tuple[Any, str, str]]
PLAIN = "/api/v1/namespaces"
WIDGETS = "/apis/pkg.example.com/v2/namespaces/default/widgets"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.pkg.example.com"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/widgets-metrics-auth"
WIDGET = {
    "apiVersion": "pkg.example.com/v2",
    "kind": "Widget",
    "metadata": {"name": "one"},
    "spec": {"image": "x"},
}


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.realcluster())])
def env(request: pytest.FixtureRequest) -> Iterator[Any]:
    with (EmbeddedCluster if request.param == "embedded" else ControlPlane).start() as started:
        yield started


@pytest.fixture
def home(request: pytest.FixtureRequest) -> str:
    """A namespace for each test: one that is going takes a while."""
    return "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:12]


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, env: Any, home: str
) -> Iterator[Command]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shipped.py").write_text(APP)
    monkeypatch.delitem(sys.modules, "shipped", raising=False)

    def call(verb: str, *words: str) -> tuple[Any, str, str]:
        capsys.readouterr()
        where = ("-n", home) if verb.endswith("deploy") else ()
        with pytest.raises(SystemExit) as ended:
            run([verb, "shipped:operator", "--kubeconfig", str(env.kubeconfig), *where, *words])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return ended.value.code or 0, out, err

    yield call
    call("undeploy", "--yes")
    call("uninstall", "--yes")
    sys.modules.pop("shipped", None)


def there(env: Any, path: str) -> bool:
    session = env.session()
    try:
        return bool(session.ready(path))
    finally:
        session.close()


def create(env: Any, path: str, body: dict[str, Any]) -> None:
    session = env.session()
    try:
        session.call("POST", path, body)
    finally:
        session.close()


@pytest.mark.slow
def test_definitions_come_and_go_and_their_objects_are_not_lost_by_mistake(
    command: Command, env: Any, home: str
) -> None:
    code, out, _ = command("install", "--diff")
    assert code == 1
    assert "+  name: widgets.pkg.example.com" in out
    assert command("install", "--dry-run=server")[1].count("created (dry run)") == 2
    assert not there(env, CRD)

    assert command("install")[1].count(" created") == 2
    create(env, WIDGETS, WIDGET)
    assert command("install")[1].count(" unchanged") == 2
    assert command("install", "--diff")[:2] == (0, "")

    code, out, err = command("uninstall")
    assert (code, out) == (1, "")
    assert "warning: 1 object of widgets.pkg.example.com will be deleted" in err
    assert "add --yes" in err
    assert there(env, CRD)
    assert command("uninstall", "--yes")[1].count(" deleted") == 2
    assert not there(env, CRD)


@pytest.mark.slow
def test_what_a_newer_version_has_not_is_pruned_and_a_second_run_changes_nothing(
    command: Command, env: Any, home: str
) -> None:
    code, out, err = command("deploy", "--no-wait")
    assert code == 0
    assert [line for line in err.splitlines() if "nodes of this cluster are simulated" not in line] == []
    assert f"deployment.apps/widgets in {home} created" in out
    assert there(env, ROLE)

    code, out, _ = command("deploy", "--no-wait", "--no-metrics", "--diff")
    assert code == 1
    assert "-        - --metrics-secure" in out
    assert "clusterrole.rbac.authorization.k8s.io/widgets-metrics-auth would be pruned" in out
    assert there(env, ROLE)

    out = command("deploy", "--no-wait", "--no-metrics")[1]
    assert "clusterrole.rbac.authorization.k8s.io/widgets-metrics-auth pruned" in out
    assert not there(env, ROLE)
    told = json.loads(command("deploy", "--no-wait", "--no-metrics", "--output", "json")[1])
    assert {one["result"] for one in told} == {"unchanged"}

    out = command("undeploy")[1]
    assert out.splitlines()[-1] == f"namespace/{home} deleted"
    assert "is not deployed" in command("undeploy")[1]


def test_a_namespace_that_was_there_before_stays(command: Command, env: Any, home: str) -> None:
    create(env, PLAIN, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}})
    assert "it existed before" in command("deploy", "--no-wait")[1]
    assert f"namespace/{home}" not in command("undeploy")[1]
    assert there(env, f"{PLAIN}/{home}")


def test_a_configmap_of_somebody_else_is_not_taken_for_the_parent(command: Command, env: Any, home: str) -> None:
    create(env, PLAIN, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "widgets-package"}}
    create(env, f"{PLAIN}/{home}/configmaps", body)
    code, _, err = command("deploy", "--no-wait")
    assert code == 1
    assert f"configmap/widgets-package in {home} is not the parent of an ApplySet" in err


@pytest.mark.slow
def test_a_kind_that_the_cluster_does_not_know_is_named(command: Command) -> None:
    code, _, err = command("deploy", "--no-wait", "--monitoring")
    assert code == 1
    assert "the cluster does not know the kind monitoring.coreos.com/v1, ServiceMonitor" in err
    # The applied objects are members of the set all the same, and are deleted with it.
    code, out, err = command("undeploy")
    assert "deployment.apps/widgets" in out, err


@pytest.mark.slow
def test_objects_are_kept_with_their_definitions_or_go_when_asked_for(command: Command, env: Any, home: str) -> None:
    command("install")
    create(env, WIDGETS, WIDGET)
    command("deploy", "--no-wait")
    code, out, err = command("undeploy")
    assert (code, out) == (1, "")
    assert "1 object of widgets.pkg.example.com" in err
    assert "customresourcedefinition" not in command("undeploy", "--keep-crds")[1]
    assert there(env, f"{WIDGETS}/one")


@pytest.mark.slow
def test_undeploy_works_while_no_webhook_converts(command: Command, env: Any, home: str, tmp_path: Path) -> None:
    """The newest version is not the stored one; reading it asks an operator that does not run any more."""
    app = APP.replace(", storage=False", "").replace('version="v2"', 'version="v2", storage=False')
    assert app.count("storage=False") == 1
    (tmp_path / "shipped.py").write_text(app)
    command("install")
    create(env, WIDGETS.replace("v2", "v1"), {**WIDGET, "apiVersion": "pkg.example.com/v1"})
    command("deploy", "--no-wait")
    code, _, err = command("undeploy")
    assert code == 1
    assert "1 object of widgets.pkg.example.com" in err
    out = command("undeploy", "--yes")[1]
    assert "customresourcedefinition.apiextensions.k8s.io/widgets.pkg.example.com deleted" in out
    assert not there(env, CRD)


def test_a_deployment_that_does_not_come_up_is_told_with_its_reason() -> None:
    from steersman.cli.installation.rollout import _state  # pyright: ignore[reportPrivateUsage]

    deployment: dict[str, Any] = {"metadata": {"generation": 2}, "spec": {"replicas": 2}}
    assert _state(deployment) == ("not seen by its controller yet", False)
    deployment["status"] = {"observedGeneration": 2, "updatedReplicas": 2, "replicas": 3}
    assert _state(deployment) == ("1 old replicas are still there", False)
    deployment["status"] = {"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}
    assert _state(deployment) == ("2 of 2 replicas are available", True)


def test_deploy_says_when_no_container_will_run_and_how_to_get_nodes_that_run_them(
    command: Command, env: Any, home: str
) -> None:
    _, _, err = command("deploy", "--no-wait")
    said = err.startswith("warning: the nodes of this cluster are simulated: Pods become Ready, and no container runs")
    assert said == isinstance(env, EmbeddedCluster)
    if said:
        assert "`steersman cluster start --node-kind process --images FILE`" in err
        assert "`steersman run shipped:operator`" in err
    assert command("deploy", "--no-wait", "--dry-run", "server")[2] == ""


async def test_a_crash_loop_is_told_at_once_with_the_last_lines_of_the_container() -> None:
    labels = {"app": "loops"}
    asked = {"simulate.steersman.dev/crash-loop": "true", "simulate.steersman.dev/logs": "one\ntwo\nno such setting"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "loops", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": asked},
                "spec": {"containers": [{"name": "main", "image": "loops"}]},
            },
        },
    }
    told: list[str] = []
    heard = asyncio.Event()

    def tell(text: str) -> None:
        told.append(text)
        if "ended" in text:
            heard.set()

    async with DevCluster.start() as cluster, cluster.client() as client:
        path = "/apis/apps/v1/namespaces/default/deployments"
        await client.raw.request("POST", path, body=json.dumps(deployment).encode())
        waiting = asyncio.create_task(rolled_out(client, "loops", "default", 600, tell))
        try:
            await asyncio.wait_for(heard.wait(), 60)
        finally:
            waiting.cancel()
        with pytest.raises(RolloutError, match=r"(?s)ended with code 1.*no such setting"):
            await rolled_out(client, "loops", "default", 0, tell)
    crash = next(text for text in told if "ended" in text)
    head, *lines = crash.splitlines()
    assert head.startswith("pod loops-")
    assert head.endswith(": container main ended with code 1 (Error) and is started again; its last lines are:")
    assert lines == ["  | one", "  | two", "  | no such setting"]


@pytest.mark.parametrize("env", ["embedded"], indirect=True)
def test_deploy_waits_until_the_deployment_is_available(command: Command) -> None:
    code, out, err = command("deploy", "--timeout", "20")
    assert code == 0, err
    assert out.splitlines()[-1] == "deployment widgets: 1 of 1 replicas are available"


def test_the_identity_of_a_set_is_that_of_its_parent() -> None:
    assert set_id("a", "b") != set_id("a", "c")
    assert len(set_id("a", "b")) <= 63  # a label's value


@pytest.mark.parametrize("words", [("--replicas", "-1"), ("--version", "x"), ("--image", "-")])
def test_bad_words_are_refused_before_anything_is_applied(words: tuple[str, str], command: Command) -> None:
    code, _, err = command("deploy", *words)
    assert code == 2
    assert "error" in err.lower() or "invalid" in err.lower()
