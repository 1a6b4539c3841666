"""The Pod's life on tables: events and times in, effects and status out."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman_cluster.nodes.pod_events import (
    Effect,
    End,
    Event,
    Exited,
    NotPrepared,
    NotStarted,
    Prepare,
    Prepared,
    ProbeFailed,
    Readiness,
    Remove,
    Report,
    Start,
    Started,
    StartedUp,
    Stop,
    Sync,
    Tick,
    Wake,
)
from steersman_cluster.nodes.pod_lifecycle import begin, step
from steersman_cluster.nodes.pod_state import PodState, Stage, Termination
from steersman_cluster.nodes.status import status_of


def pod(*containers: dict[str, Any], deleting: float | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "namespace": "d", "uid": "u", "generation": 1}
    if deleting is not None:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": deleting}
    return {"metadata": metadata, "spec": {"containers": list(containers) or [{"name": "c", "image": "i"}], **spec}}


class Node:
    """A runtime of few words: it holds the life and the effects since last asked."""

    def __init__(self, obj: dict[str, Any], *, adopt: bool = False) -> None:
        self.now = 1000.0
        self.pod_state: PodState = begin(obj, self.now, adopt=adopt)
        self.effects: list[Effect] = []

    def take(self, event: Event) -> "Node":
        self.pod_state, effects = step(self.pod_state, event, self.now)
        self.effects += effects
        return self

    def ready(self) -> "Node":
        return self.take(Tick()).take(Prepared("10.0.0.1"))

    def done(self, kind: type) -> list[Any]:
        found = [e for e in self.effects if isinstance(e, kind)]
        self.effects = [e for e in self.effects if not isinstance(e, kind)]
        return found

    def run(self, name: str = "c", **fields: Any) -> "Node":
        attempt = self.attempt(name)
        return self.take(Started(name, attempt, **fields))

    def attempt(self, name: str = "c") -> int:
        found = self.pod_state.container(name)
        assert found is not None
        return found.attempt

    def exits(self, code: int = 0, name: str = "c") -> "Node":
        return self.take(Exited(name, self.attempt(name), code))

    def after(self, seconds: float) -> "Node":
        self.now += seconds
        return self.take(Tick())

    @property
    def status(self) -> dict[str, Any]:
        return status_of(self.pod_state, "10.0.0.9", self.now)

    def state(self, name: str = "c") -> dict[str, Any]:
        every = [*self.status.get("initContainerStatuses", []), *self.status["containerStatuses"]]
        return next(s for s in every if s["name"] == name)

    def condition(self, type: str) -> dict[str, Any]:
        return next(c for c in self.status["conditions"] if c["type"] == type)


def test_a_pod_is_prepared_then_started_then_ready() -> None:
    node = Node(pod()).take(Tick())
    assert node.done(Prepare)
    assert not node.done(Start)
    assert node.status["phase"] == "Pending"
    assert node.state()["state"] == {"waiting": {"reason": "ContainerCreating"}}
    node.take(Prepared("10.0.0.1"))
    assert node.done(Start) == [Start("c", 1)]
    node.run(ready=False)
    assert (node.status["phase"], node.condition("Ready")["status"]) == ("Running", "False")
    assert node.condition("Ready")["message"] == "containers with unready status: [c]"
    node.take(Readiness("c", 1, ready=True))
    assert node.condition("Ready")["status"] == "True"
    assert [r.reason for r in node.done(Report)] == ["Pulled", "Created", "Started"]


def test_a_crashing_container_restarts_at_once_then_backs_off_ten_seconds_doubling_to_five_minutes() -> None:
    node = Node(pod()).ready().run().exits(1)
    assert node.done(Start)[-1] == Start("c", 2)
    waits = []
    for _ in range(7):
        node.run().exits(1)
        assert node.state()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        wait = node.done(Wake)[-1].at - node.now
        waits.append(wait)
        assert not node.done(Start)
        node.after(wait)
        assert node.done(Start)
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    assert node.run().state()["restartCount"] == 8


def test_a_restart_counts_once_the_container_runs_again() -> None:
    node = Node(pod()).ready().run().exits(9)
    state = node.state()
    assert (state["restartCount"], state["state"]["terminated"]["exitCode"], state["lastState"]) == (0, 9, {})
    state = node.run().state()
    assert (state["restartCount"], state["lastState"]["terminated"]["exitCode"]) == (1, 9)


def test_a_restart_that_finds_no_image_counts_nothing() -> None:
    node = Node(pod()).ready().run().exits(9)
    for _ in range(3):
        node.take(NotStarted("c", node.attempt(), "ErrImagePull", "gone")).after(600)
    assert node.state()["restartCount"] == 0
    assert node.run().state()["restartCount"] == 1


def test_a_restart_that_fails_to_start_counts() -> None:
    node = Node(pod()).ready().run().exits(9)
    node.take(NotStarted("c", node.attempt(), "StartError", "no such file"))
    state = node.state()
    assert (state["restartCount"], state["lastState"]["terminated"]["reason"]) == (1, "StartError")


def test_a_long_run_without_failure_forgets_the_back_off() -> None:
    node = Node(pod()).ready().run().exits(1).run()
    node.after(700).exits(1)
    assert node.state()["state"].get("waiting", {}).get("reason") != "CrashLoopBackOff"
    assert node.done(Start)[-1] == Start("c", 3)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", 0, "Succeeded"), ("Never", 2, "Failed"), ("OnFailure", 0, "Succeeded"), ("OnFailure", 2, "Running")],
)
def test_the_restart_policy_decides_how_a_pod_ends(policy: str, code: int, phase: str) -> None:
    node = Node(pod(restartPolicy=policy)).ready().run().exits(code)
    assert node.status["phase"] == phase
    if phase != "Running":
        reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}[phase]
        assert node.condition("Ready")["reason"] == reason
        assert not node.take(Sync(node.pod_state.pod)).done(Remove)


def test_init_containers_run_one_after_the_other_and_sidecars_until_the_end() -> None:
    inits = [
        {"name": "a", "image": "i"},
        {"name": "s", "image": "i", "restartPolicy": "Always"},
        {"name": "b", "image": "i"},
    ]
    node = Node(pod(initContainers=inits, restartPolicy="Never")).ready()
    assert node.done(Start) == [Start("a", 1)]
    assert node.condition("Initialized")["message"] == "containers with incomplete status: [a s b]"
    assert node.state()["state"] == {"waiting": {"reason": "PodInitializing"}}
    node.run("a").exits(0, "a")
    assert node.done(Start) == [Start("s", 1)]
    node.run("s", started=False)
    assert not node.done(Start)
    node.take(StartedUp("s", 1))
    assert node.done(Start) == [Start("b", 1)]
    node.run("b").exits(0, "b")
    assert node.done(Start) == [Start("c", 1)]
    node.run()
    assert node.condition("Initialized")["status"] == "True"
    node.exits(0)
    assert node.done(Stop) == [Stop("s", 1, 30.0)]
    assert node.status["phase"] == "Running"
    node.exits(0, "s")
    assert node.status["phase"] == "Succeeded"
    assert not node.done(Start)


def test_a_failed_init_container_fails_a_pod_that_never_restarts() -> None:
    node = Node(pod(initContainers=[{"name": "a", "image": "i"}], restartPolicy="Never")).ready().run("a").exits(1, "a")
    assert node.status["phase"] == "Failed"


def test_an_init_container_that_never_restarts_fails_its_pod_whatever_the_pods_policy() -> None:
    init = {"name": "i", "image": "i", "restartPolicy": "Never"}
    node = Node(pod(initContainers=[init], restartPolicy="Always")).ready().run("i").exits(1, "i")
    assert node.pod_state.finished == "Failed"


def test_an_init_container_that_always_restarts_on_failure_is_started_again_in_a_pod_that_never_restarts() -> None:
    init = {"name": "i", "image": "i", "restartPolicy": "OnFailure"}
    node = Node(pod(initContainers=[init], restartPolicy="Never")).ready().run("i").exits(1, "i")
    assert (node.pod_state.finished, node.attempt("i")) == ("", 2)
    node.run("i").exits(0, "i").run("c").exits(0, "c")
    assert node.pod_state.finished == "Succeeded"


@pytest.mark.parametrize(
    ("operator", "code", "finished"),
    [("In", 42, ""), ("In", 1, "Failed"), ("NotIn", 1, ""), ("NotIn", 42, "Failed")],
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_a_rule_about_exit_codes_goes_before_the_restart_policy(
    field: str, operator: str, code: int, finished: str
) -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": operator, "values": [42, 43]}}
    container = {"name": "x", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    spec: dict[str, Any] = {"initContainers": [container]} if field == "initContainers" else {}
    made = pod(**spec) if spec else pod(container)
    assert Node(made).ready().run("x").exits(code, "x").pod_state.finished == finished


def states(node: Node, kind: str) -> list[tuple[str, str]]:
    """State and reason of each container of a kind."""
    every = [next(iter(s["state"].items())) for s in status_of(node.pod_state, "h", node.now)[f"{kind}Statuses"]]
    return [(state, fields.get("reason", "")) for state, fields in every]


def test_what_never_started_still_waits_when_a_failed_init_container_has_ended_the_pod() -> None:
    inits = [{"name": name, "image": "i"} for name in ("one", "two", "three")]
    node = Node(pod(initContainers=inits, restartPolicy="Never")).ready().run("one").exits(0, "one")
    node.run("two").exits(1, "two")
    assert node.pod_state.finished == "Failed"
    assert states(node, "initContainer") == [
        ("terminated", "Completed"),
        ("terminated", "Error"),
        ("waiting", "PodInitializing"),
    ]
    assert states(node, "container") == [("waiting", "PodInitializing")]
    conditions = {c["type"]: c["status"] for c in status_of(node.pod_state, "h", node.now)["conditions"]}
    assert conditions["Initialized"] == "False"


def test_sidecars_run_and_restart_in_a_pod_that_never_restarts_until_its_containers_have_ended() -> None:
    side = {"name": "side", "image": "i", "restartPolicy": "Always"}
    node = Node(pod(initContainers=[side, {"name": "i", "image": "i"}], restartPolicy="Never")).ready()
    node.run("side").exits(1, "side")
    assert node.attempt("side") == 2
    node.run("side").run("i").exits(1, "i")
    assert [stop.container for stop in node.done(Stop)] == ["side"]
    assert node.exits(143, "side").pod_state.finished == "Failed"


def test_a_container_that_backs_off_when_its_pod_ends_shows_how_it_ended() -> None:
    node = Node(pod()).ready().run().exits(3).run().exits(3)
    assert states(node, "container") == [("waiting", "CrashLoopBackOff")]
    node.take(End(Termination("Evicted", "out of memory", grace=0.0)))
    assert states(node, "container") == [("terminated", "Error")]


def debugged(node: Node, *names: str) -> Node:
    """Add ephemeral containers, as their subresource does."""
    spec = {**node.pod_state.pod["spec"], "ephemeralContainers": [{"name": name, "image": "i"} for name in names]}
    return node.take(Sync({**node.pod_state.pod, "spec": spec}))


def test_an_ephemeral_container_is_started_once_and_counts_for_nothing() -> None:
    node = Node(pod()).ready().run()
    node.done(Start)
    assert debugged(node, "debug").done(Start) == [Start("debug", 1)]
    node.run("debug")
    status = status_of(node.pod_state, "h", node.now)
    assert "initContainerStatuses" not in status
    (ephemeral,) = status["ephemeralContainerStatuses"]
    assert "running" in ephemeral["state"]
    assert (ephemeral["ready"], "started" in ephemeral) == (False, False)
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    node.exits(1, "debug").after(600)
    assert node.done(Start) == []
    assert debugged(node, "debug", "again").done(Start) == [Start("again", 1)]
    assert states(node, "ephemeralContainer") == [("terminated", "Error"), ("waiting", "ContainerCreating")]


def test_an_ephemeral_container_runs_beside_an_init_container_that_does_not_end() -> None:
    node = Node(pod(initContainers=[{"name": "i", "image": "i"}])).ready().run("i")
    node.done(Start)
    assert debugged(node, "debug").done(Start) == [Start("debug", 1)]


def test_an_ephemeral_container_is_stopped_with_its_pod() -> None:
    node = debugged(Node(pod(restartPolicy="Never")).ready().run(), "debug").run("debug")
    node.exits(0)
    assert [stop.container for stop in node.done(Stop)] == ["debug"]
    assert node.exits(137, "debug").pod_state.finished == "Succeeded"


@pytest.mark.parametrize("adopt", [True, False])
def test_a_node_that_starts_again_remembers_ephemeral_containers(adopt: bool) -> None:
    node = debugged(Node(pod()).ready().run(), "ended", "runs").run("ended").run("runs").exits(2, "ended")
    made = {**node.pod_state.pod, "status": status_of(node.pod_state, "h", node.now)}
    again = Node(made, adopt=adopt).take(Tick()).take(Prepared("10.0.0.2"))
    assert [start.container for start in again.done(Start) if start.container != "c"] == []
    runs = ("running", "") if adopt else ("terminated", "ContainerStatusUnknown")
    assert states(again, "ephemeralContainer") == [("terminated", "Error"), runs]


def test_deletion_stops_within_the_grace_period_then_removes_once() -> None:
    node = Node(pod()).ready().run()
    node.take(Sync(pod(deleting=30)))
    assert node.done(Stop) == [Stop("c", 1, 30.0)]
    assert [r.message for r in node.done(Report) if r.reason == "Killing"] == ["Stopping container c"]
    node.take(Sync(pod(deleting=30)))
    assert not node.done(Stop)
    node.take(Sync(pod(deleting=5)))
    assert node.done(Stop) == [Stop("c", 1, 5.0)]
    node.exits(137)
    assert (len(node.done(Remove)), node.status["phase"]) == (1, "Failed")
    assert not node.take(Tick()).done(Remove)


def test_a_pod_that_never_ran_is_removed_at_once() -> None:
    node = Node(pod()).take(Sync(pod(deleting=30)))
    assert node.done(Remove)
    assert not node.done(Start)


def test_a_finished_pod_waits_for_its_deletion() -> None:
    node = Node(pod(restartPolicy="Never")).ready().run().exits(0)
    assert not node.done(Remove)
    assert node.take(Sync(pod(deleting=0, restartPolicy="Never"))).done(Remove)


def test_a_failed_probe_restarts_the_container_with_a_reason() -> None:
    node = Node(pod()).ready().run()
    node.take(ProbeFailed("c", 1, "liveness", 3.0))
    assert node.done(Stop) == [Stop("c", 1, 3.0)]
    assert node.done(Report)[-1].message == "Container c failed liveness probe, will be restarted"
    node.exits(137)
    assert node.done(Start)[-1] == Start("c", 2)


def test_a_changed_image_restarts_even_what_never_restarts() -> None:
    node = Node(pod(restartPolicy="Never")).ready().run()
    node.take(Sync(pod({"name": "c", "image": "new"}, restartPolicy="Never")))
    assert node.done(Report)[-1].message == "Container c definition changed, will be restarted"
    node.exits(0).run()
    assert (node.state()["image"], node.state()["restartCount"], node.status["phase"]) == ("new", 1, "Running")


def conditions(node: Node) -> dict[str, str]:
    return {c["type"]: c["status"] for c in node.status["conditions"]}


def test_a_pod_whose_image_changes_stays_ready_until_the_new_container_decides() -> None:
    probed = {"name": "c", "image": "new", "readinessProbe": {}}
    node = Node(pod()).ready().run()
    before = node.state()["state"]
    for event in (Sync(pod(probed)), Exited("c", 1, 0)):
        node.take(event)
        assert (node.state()["state"], node.state()["ready"], conditions(node)["Ready"]) == (before, True, "True")
    node.run(ready=False)
    assert (node.state()["ready"], node.state()["restartCount"], conditions(node)["Ready"]) == (False, 1, "False")
    assert node.state()["lastState"]["terminated"]["exitCode"] == 0


def test_a_pod_whose_image_changes_to_a_missing_one_is_ready_no_longer() -> None:
    node = Node(pod()).ready().run().take(Sync(pod({"name": "c", "image": "new"}))).exits(0)
    node.take(NotStarted("c", 2, "ErrImagePull", "no such image"))
    assert node.state()["state"]["waiting"]["reason"] == "ErrImagePull"
    assert conditions(node)["Ready"] == "False"


def test_a_pod_that_is_deleted_while_its_image_changes_shows_how_the_container_ended() -> None:
    node = Node(pod()).ready().run().take(Sync(pod({"name": "c", "image": "new"})))
    node.take(Sync(pod({"name": "c", "image": "new"}, deleting=5))).exits(137)
    assert node.state()["state"]["terminated"]["exitCode"] == 137
    assert (node.status["phase"], conditions(node)["Ready"]) == ("Failed", "False")


def test_a_missing_image_backs_off_and_recovers() -> None:
    node = Node(pod()).ready()
    node.take(NotStarted("c", 1, "ErrImagePull", "no such image"))
    assert node.state()["state"]["waiting"] == {"reason": "ErrImagePull", "message": "no such image"}
    node.after(1)
    waiting = node.state()["state"]["waiting"]
    assert waiting["reason"] == "ImagePullBackOff"
    assert waiting["message"] == 'Back-off pulling image "i": ErrImagePull: no such image'
    assert not node.done(Start)[1:]
    node.after(9)
    assert node.done(Start) == [Start("c", 2)]
    assert node.state()["restartCount"] == 0


def test_a_deadline_ends_the_pod() -> None:
    node = Node(pod(activeDeadlineSeconds=5)).ready().run()
    assert node.done(Wake)[-1].at == 1005.0
    node.after(5)
    assert node.done(Stop)
    node.exits(143)
    assert (node.status["phase"], node.status["reason"]) == ("Failed", "DeadlineExceeded")


def test_eviction_fails_the_pod_and_leaves_it() -> None:
    node = Node(pod()).ready().run().take(End(Termination("Evicted", "no memory", grace=0.0)))
    assert node.done(Stop) == [Stop("c", 1, 0.0)]
    node.exits(137)
    assert (node.status["phase"], node.status["reason"], node.status["message"]) == ("Failed", "Evicted", "no memory")
    assert not node.done(Remove)


def test_readiness_gates_hold_a_pod_back() -> None:
    obj = pod(readinessGates=[{"conditionType": "x/y"}])
    node = Node(obj).ready().run()
    assert node.condition("ContainersReady")["status"] == "True"
    message = 'corresponding condition of pod readiness gate "x/y" does not exist.'
    assert (node.condition("Ready")["reason"], node.condition("Ready")["message"]) == (
        "ReadinessGatesNotReady",
        message,
    )
    node.take(Sync({**obj, "status": {"conditions": [{"type": "x/y", "status": "True"}]}}))
    assert node.condition("Ready")["status"] == "True"


def test_ground_that_cannot_be_made_is_tried_again() -> None:
    node = Node(pod()).take(Tick())
    node.done(Prepare)
    node.take(NotPrepared("FailedMount", "no such claim"))
    assert not node.done(Prepare)
    node.after(3)
    assert node.done(Prepare)


def test_what_earlier_attempts_say_is_ignored() -> None:
    node = Node(pod()).ready().run().exits(1).run()
    before = node.pod_state
    node.take(Exited("c", 1, 9)).take(Readiness("c", 1, ready=False)).take(Exited("other", 1, 1))
    assert node.pod_state == before


@pytest.mark.parametrize(("adopt", "restarts"), [(True, 0), (False, 1)])
def test_a_node_that_starts_again_finds_its_pods(adopt: bool, restarts: int) -> None:
    first = Node(pod()).ready().run()
    second = Node({**pod(), "status": first.status}, adopt=adopt).take(Tick())
    if not adopt:
        second.take(Prepared("10.0.0.2")).run()
    container = second.pod_state.container("c")
    assert container is not None
    assert (container.restarts, container.stage) == (restarts, Stage.RUNNING)


_CODES = st.integers(0, 2)


@settings(max_examples=200, deadline=None)
@given(
    policy=st.sampled_from(["Always", "OnFailure", "Never"]),
    moves=st.lists(
        st.tuples(st.sampled_from(["run", "exit", "wait", "fail", "condemn", "delete"]), _CODES), max_size=40
    ),
)
def test_whatever_happens_a_deleted_pod_is_removed_once_and_nothing_runs_twice(  # noqa: C901
    policy: str, moves: list[tuple[str, int]]
) -> None:
    inits = [{"name": "i", "image": "i"}, {"name": "s", "image": "i", "restartPolicy": "Always"}]
    node = Node(pod(initContainers=inits, restartPolicy=policy)).ready()
    live: set[tuple[str, int]] = set()
    removed = 0

    def settle() -> None:
        nonlocal removed
        for start in node.done(Start):
            assert not any(name == start.container for name, _ in live)
            live.add((start.container, start.attempt))
        removed += len(node.done(Remove))

    def finish(code: int) -> None:
        if live:
            name, attempt = min(live)
            live.discard((name, attempt))
            node.take(Exited(name, attempt, code))
            settle()

    settle()
    for move, code in moves:
        target = max(live) if live else ("c", 0)
        match move:
            case "run":
                node.take(Started(*target))
            case "exit":
                finish(code)
            case "wait":
                node.after(400)
            case "fail" if live and node.pod_state.container(target[0]).stage is Stage.STARTING:  # type: ignore[union-attr]
                live.discard(target)
                node.take(NotStarted(*target, reason="CreateContainerConfigError", message="no"))
            case "condemn":
                node.take(ProbeFailed(*target, why="liveness"))
            case _:
                pass
        settle()
        status = node.status
        assert len(status["conditions"]) == 4
        assert status["phase"] in ("Pending", "Running", "Succeeded", "Failed")
    node.take(Sync(pod(initContainers=inits, restartPolicy=policy, deleting=1)))
    settle()
    for _ in range(10):
        finish(0)
    assert removed == 1
    assert not live
