"""What the operator logs: one line for each write to the cluster, with the reason."""

from pathlib import Path

SAMPLE = Path(__file__).parent.parent / "config" / "samples" / "apps_v1_helloapp.yaml"


def test_each_write_of_the_deployment_is_one_line_of_the_log_that_says_why(cluster, operator):
    running = operator("helloapp:operator")

    def deployment_has(replicas):
        cluster.wait("deployment", "helloapp-sample", lambda found: found["spec"]["replicas"] == replicas)
        cluster.wait("helloapps.apps.anupam.com", "helloapp-sample", "Ready")
        running.wait_idle()

    cluster.apply(SAMPLE)
    size = cluster.get("helloapps.apps.anupam.com", "helloapp-sample")["spec"]["size"]
    deployment_has(size)
    cluster.patch("helloapps.apps.anupam.com", "helloapp-sample", {"spec": {"size": size + 1}})
    deployment_has(size + 1)
    cluster.patch("deployment", "helloapp-sample", {"spec": {"replicas": 0}})
    deployment_has(size + 1)
    told = [line for line in running.log if line["event"].startswith("deployment_")]
    assert [(line["event"], line["reason"], line["replicas"]) for line in told] == [
        ("deployment_created", "missing", size),
        ("deployment_scaled", "spec_changed", size + 1),
        ("deployment_scaled", "drift", size + 1),
    ]
    assert told[-1]["replicas_before"] == 0
    assert {(line["level"], line["deployment"]) for line in told} == {("info", "helloapp-sample")}
