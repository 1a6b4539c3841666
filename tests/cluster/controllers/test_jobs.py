"""Jobs and CronJobs, from the user's side."""

from steersman.k8s import Job, Pod
from steersman.models import get_condition

from .test_garbage import gone


def job(name="work", **spec):
    pod = {"containers": [{"name": "main", "image": "work:1"}], "restartPolicy": "Never"}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": pod}, **spec}}


def has(type):
    return lambda job: (c := get_condition(job.status.conditions, type)) is not None and c.status == "True"


async def test_a_job_completes_and_frees_its_pods(lab):
    await lab.create(Job, job(completions=3, parallelism=2))
    done = await lab.until(Job, "work", has("Complete"))
    assert (done.status.succeeded, done.status.active, done.status.failed) == (3, None, None)
    condition = get_condition(done.status.conditions, "Complete")
    assert condition.reason == "CompletionsReached"
    assert has("SuccessCriteriaMet")(done)
    assert done.status.completion_time is not None
    pods = await lab.list(Pod)
    assert len(pods) == 3
    assert not any(p.metadata.finalizers for p in pods)


async def test_an_indexed_job_works_on_every_index(lab):
    await lab.create(Job, job(completions=3, parallelism=3, completionMode="Indexed"))
    done = await lab.until(Job, "work", has("Complete"))
    assert done.status.completed_indexes == "0-2"
    pods = await lab.list(Pod)
    key = "batch.kubernetes.io/job-completion-index"
    assert sorted(p.metadata.annotations[key] for p in pods) == ["0", "1", "2"]
    assert {p.spec.hostname for p in pods} == {"work-0", "work-1", "work-2"}


async def test_a_suspended_job_runs_nothing_until_it_is_resumed(lab):
    await lab.create(Job, job(suspend=True))
    waiting = await lab.until(Job, "work", has("Suspended"))
    assert waiting.status.start_time is None
    assert not await lab.list(Pod)
    await lab.patch(Job, "work", {"spec": {"suspend": False}})
    done = await lab.until(Job, "work", has("Complete"))
    suspended = get_condition(done.status.conditions, "Suspended")
    assert (suspended.status, suspended.reason) == ("False", "JobResumed")


async def test_a_job_fails_beyond_its_backoff_limit(lab):
    body = job(backoffLimit=0)
    body["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    await lab.create(Job, body)
    (pod,) = await lab.eventually(lambda: lab.list(Pod), "a Pod")
    await lab.patch(Pod, pod.metadata.name, {"status": {"phase": "Failed"}}, subresource="status")
    failed = await lab.until(Job, "work", has("Failed"))
    condition = get_condition(failed.status.conditions, "Failed")
    assert (condition.reason, failed.status.failed) == ("BackoffLimitExceeded", 1)
    assert condition.message == "Job has reached the specified backoff limit"


async def test_an_index_that_fails_is_given_up_and_the_others_go_on(lab):
    body = job(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=0)
    body["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    await lab.create(Job, body)

    async def both():
        pods = await lab.list(Pod)
        return pods if len(pods) == 2 else None

    key = "batch.kubernetes.io/job-completion-index"
    pods = {pod.metadata.annotations[key]: pod.metadata.name for pod in await lab.eventually(both, "two Pods")}
    await lab.patch(Pod, pods["1"], {"status": {"phase": "Failed"}}, subresource="status")
    going = await lab.until(Job, "work", lambda job: job.status.failed_indexes == "1")
    assert (going.status.active, has("Failed")(going)) == (1, False)
    await lab.patch(Pod, pods["0"], {"status": {"phase": "Succeeded"}}, subresource="status")
    failed = await lab.until(Job, "work", has("Failed"))
    assert get_condition(failed.status.conditions, "Failed").reason == "FailedIndexes"
    assert (failed.status.completed_indexes, failed.status.failed) == ("0", 1)


async def test_a_job_past_its_deadline_is_stopped(lab):
    body = job(activeDeadlineSeconds=1)
    body["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    await lab.create(Job, body)
    failed = await lab.until(Job, "work", has("Failed"))
    assert get_condition(failed.status.conditions, "Failed").reason == "DeadlineExceeded"

    async def none():
        return not await lab.list(Pod)

    await lab.eventually(none, "no Pod is left")


async def test_a_finished_job_goes_when_its_time_is_over(lab):
    await lab.create(Job, job(ttlSecondsAfterFinished=0))
    await gone(lab, Job, "work")

    async def none():
        return not await lab.list(Pod)

    await lab.eventually(none, "its Pods are gone too")


async def test_a_deleted_job_leaves_no_pod_behind(lab):
    body = job()
    body["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    await lab.create(Job, body)
    await lab.eventually(lambda: lab.list(Pod), "a Pod")
    await lab.delete(Job, "work", propagation="Background")

    async def none():
        return not await lab.list(Pod)

    await lab.eventually(none, "no Pod is left")
