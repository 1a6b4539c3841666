"""The validation of TopicTransfer."""

from __future__ import annotations

from steersman import ObjectMeta, evolve

from rocketmq.api.v1.topictransfer_types import TopicTransfer, TopicTransferSpec
from rocketmq.webhooks.topictransfer_v1_validation import conflicts, late_undo


def transfer(name: str, topic: str = "orders", source: str = "green", target: str = "blue", phase: str = ""):
    spec = TopicTransferSpec(topic=topic, source_cluster=source, target_cluster=target)
    made = TopicTransfer(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)
    return evolve(made, {"status.phase": phase})


def test_a_topic_is_moved_by_one_transfer_at_a_time():
    (problem,) = conflicts(transfer("b"), [transfer("a", phase="Drain")])
    assert "TopicTransfer a moves this topic: wait until it is done" in str(problem)


def test_a_transfer_back_waits_for_the_transfer_there():
    assert list(conflicts(transfer("b", source="blue", target="green"), [transfer("a")]))


def test_other_topics_other_clusters_and_finished_transfers_do_not_conflict():
    others = [
        transfer("a", topic="payments"),
        transfer("c", source="red", target="black"),
        transfer("d", phase="Done"),
    ]
    assert list(conflicts(transfer("b"), others)) == []


def test_undo_is_refused_once_writing_has_stopped():
    old = transfer("a", phase="StopWrite")
    (problem,) = late_undo(evolve(old, {"spec.undo": True}), old)
    assert "spec.undo" in str(problem)
    assert "opposite direction" in str(problem)


def test_undo_is_accepted_before_writing_stops():
    old = transfer("a", phase="CreateTopic")
    assert list(late_undo(evolve(old, {"spec.undo": True}), old)) == []
