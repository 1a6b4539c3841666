"""Replicas on a real API server: leases, standbys, shutdown, namespaces, probes and metrics, outages."""

import asyncio
import json
import ssl
import urllib.error
import urllib.request

import pytest
import yaml

from steersman import ALL_NAMESPACES, Context, LeadershipLostError, ObjectMeta, Operator, Resource, Result, run_operator
from steersman.client import NotFound
from steersman.client.config import Config
from steersman.k8s import ConfigMap, Lease, Namespace
from steersman.models import MergePatch, Model
from steersman.operator import NotLeaderError, Settings
from steersman.operator.handlers import StartupHookError

pytestmark = pytest.mark.realcluster


class JobSpec(Model):
    seconds: float = 0.0


class Job(Resource, group="operator-tests.steersman.dev", version="v1", kind="SlowJob"):
    spec: JobSpec = JobSpec()


def job(env, name="one", seconds=0.0, namespace=None):
    return Job(metadata=ObjectMeta(name=name, namespace=namespace or env.namespace), spec=JobSpec(seconds=seconds))


def counting(name="counting"):
    """An operator that records its reconciles."""
    operator = Operator(name)
    seen = []

    @operator.controller
    async def reconcile(obj: Job, ctx: Context) -> None:
        seen.append((obj.metadata.namespace, obj.metadata.name))

    return operator, seen


async def lease(env, name):
    return await env.client.get(Lease, name, namespace=env.namespace)


def address(env, what):
    """The address that a server of the newest replica logged."""
    lines = [json.loads(line) for line in env.log.getvalue().splitlines()]
    return [line["address"] for line in lines if line["event"] == what][-1]


async def fetch(url, token=None, context=None):
    def get():
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    return await asyncio.to_thread(get)


async def test_a_standby_keeps_warm_and_takes_over_when_the_leader_stops(env):
    """L3: the lease is released at shutdown and the standby, whose caches are in step, goes on at once."""
    await env.install(Job)
    (first, seen_first), (second, seen_second) = counting("pair"), counting("pair")
    async with env.running(first, retry_period=0.2):
        await env.client.create(job(env))
        await env.eventually(lambda: seen_first, "the leader works")
        async with env.running(second, retry_period=0.2, health_probe_bind_address="127.0.0.1:0") as life:
            await env.eventually(lambda: "another_replica_leads" in env.log.getvalue(), "a standby")
            base = f"http://{address(env, 'probes_served')}"
            await env.eventually(lambda: ready(base), "the standby is ready")
            assert not seen_second
            holder = (await lease(env, "pair")).spec.holder_identity
            await env.stop(first)
            assert not life.done()
            await env.eventually(lambda: seen_second, "the standby takes over", within=10)
            assert (await lease(env, "pair")).spec.holder_identity != holder


async def ready(base):
    return (await fetch(f"{base}/readyz"))[0] == 200


async def test_probes_and_metrics_are_served_on_every_replica_leader_or_not(env):
    """L4: a standby answers probes and scrapes as the leader does."""
    await env.install(Job)
    servers = {"health_probe_bind_address": "127.0.0.1:0", "metrics_bind_address": "127.0.0.1:0"}
    async with env.running(counting("everywhere")[0], **servers):
        await env.eventually(lambda: "leader_elected" in env.log.getvalue(), "a leader")
        async with env.running(counting("everywhere")[0], **servers):
            await env.eventually(lambda: "another_replica_leads" in env.log.getvalue(), "a standby")
            probes, metrics = address(env, "probes_served"), address(env, "metrics_served")
            assert (await fetch(f"http://{probes}/healthz"))[0] == 200
            status, body = await fetch(f"http://{metrics}/metrics")
            assert status == 200
            assert "leader_election_master_status" in body


async def test_a_cold_standby_is_ready_but_watches_nothing_until_it_leads(env):
    """L3: warm caches are a choice; a cold standby must be ready too, or a rolling update would wait for ever."""
    await env.install(Job)
    first, second = counting("cold")[0], counting("cold")
    await env.client.create(job(env))

    def reads():
        events = env.plane.audit_events(verbs=("list", "watch"), resource="slowjobs")
        return {e.audit_id for e in events if e.namespace == env.namespace}

    cold = {"warm_standby": False, "health_probe_bind_address": "127.0.0.1:0"}
    async with env.running(first, retry_period=0.2):
        await env.eventually(lambda: "operator_started" in env.log.getvalue(), "a leader")
        before = await asyncio.to_thread(reads)
        async with env.running(second[0], retry_period=0.2, **cold):
            await env.eventually(lambda: "another_replica_leads" in env.log.getvalue(), "a standby")
            assert await ready(f"http://{address(env, 'probes_served')}")
            assert await asyncio.to_thread(reads) == before
            await env.stop(first)
            await env.eventually(lambda: second[1], "it works once it leads")


async def test_a_lease_that_is_lost_while_starting_ends_the_start(env):
    """L2: a start-up hook that takes long does not outlive the leadership."""
    await env.install(Job)
    operator, seen = counting("slow-start")
    hooked = asyncio.Event()

    @operator.on_startup
    async def begin() -> None:
        hooked.set()
        await asyncio.sleep(3600)

    async with env.running(operator, retry_period=0.2) as life:
        await hooked.wait()
        await env.client.patch(
            Lease, "slow-start", MergePatch({"spec": {"holderIdentity": "thief"}}), namespace=env.namespace
        )
        with pytest.raises(LeadershipLostError):
            async with asyncio.timeout(90):
                await asyncio.shield(life)
        env.forgive(life)
    assert not seen


async def test_shutdown_lets_reconciles_finish_their_calls_and_releases_the_lease_last(env):
    """R4: intake stops, the running reconcile writes its last object, and only then is the lease released."""
    await env.install(Job)
    operator = Operator("finishing")
    started, proceed, other = asyncio.Event(), asyncio.Event(), []

    @operator.controller(workers=1)
    async def reconcile(obj: Job, ctx: Context) -> None:
        if obj.metadata.name != "one":
            other.append(obj.metadata.name)
            return
        started.set()
        await proceed.wait()
        await ctx.create(ConfigMap(metadata=ObjectMeta(name="last-words")), owned=False)

    async with env.running(operator):
        await env.client.create(job(env))
        await started.wait()
        stopping = asyncio.create_task(env.stop(operator))
        await env.eventually(lambda: "shutdown_started" in env.log.getvalue(), "the shutdown")
        await env.client.create(job(env, "two"))
        assert (await lease(env, "finishing")).spec.holder_identity, "held while a reconcile runs"
        proceed.set()
        await stopping
    written = await env.client.get(ConfigMap, "last-words", namespace=env.namespace)
    released = await lease(env, "finishing")
    assert not released.spec.holder_identity
    assert int(released.metadata.resource_version) > int(written.metadata.resource_version)
    assert not other, "nothing new is taken in"


async def test_a_reconcile_that_outlasts_the_grace_period_is_cancelled(env):
    """R4: the grace period ends, and so does the reconcile."""
    await env.install(Job)
    operator = Operator("stubborn")
    cancelled = []
    started = asyncio.Event()

    @operator.controller
    async def reconcile(obj: Job, ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(obj.metadata.name)
            raise

    async with env.running(operator, shutdown_grace=0.2):
        await env.client.create(job(env))
        await started.wait()
    assert cancelled == ["one"]
    assert not (await lease(env, "stubborn")).spec.holder_identity


async def test_a_stolen_lease_ends_the_process_after_its_writes_are_refused(env):
    """L2: a replica that has lost the lease writes nothing, stops its controllers, and ends with an error."""
    await env.install(Job)
    operator = Operator("robbed")
    refused = asyncio.Event()

    @operator.controller
    async def reconcile(obj: Job, ctx: Context) -> Result:
        try:
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name="mine"), data={"now": str(ctx.now())}))
        except NotLeaderError:
            refused.set()
            raise
        return Result(requeue_after=0.01)

    theft = MergePatch({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}})
    async with env.running(operator, lease_duration=3, renew_deadline=1, retry_period=0.5) as life:
        await env.client.create(job(env))
        await env.eventually(lambda: exists(env, "mine"), "it writes")
        await env.client.patch(Lease, "robbed", theft, namespace=env.namespace)
        with pytest.raises(LeadershipLostError, match="thief holds the lease now"):
            async with asyncio.timeout(90):
                await asyncio.shield(life)
        last = (await env.client.get(ConfigMap, "mine", namespace=env.namespace)).metadata.resource_version
        await asyncio.sleep(0.3)
        assert (await env.client.get(ConfigMap, "mine", namespace=env.namespace)).metadata.resource_version == last
        assert (await lease(env, "robbed")).spec.holder_identity == "thief", "and releases nobody else's lease"
        env.forgive(life)


async def exists(env, name):
    try:
        await env.client.get(ConfigMap, name, namespace=env.namespace)
    except NotFound:
        return False
    return True


async def test_two_operators_with_one_name_never_work_at_the_same_time_and_say_why(env):
    await env.install(Job)
    one, seen_one = counting("same-name")
    other = Operator("same-name")
    seen_other = []

    @other.controller
    async def reconcile(obj: ConfigMap, ctx: Context) -> None:
        seen_other.append(obj.metadata.name)

    async with env.running(one):
        await env.client.create(job(env))
        await env.eventually(lambda: seen_one, "the first works")
        async with env.running(other):
            await env.eventually(
                lambda: "give one of the two another name or lease" in env.log.getvalue(), "the explanation"
            )
            assert not seen_other


async def test_several_namespaces(env):
    await env.install(Job)
    await asyncio.to_thread(env.plane.create_namespace, f"{env.namespace}-b")
    operator, seen = counting("several")
    both = (env.namespace, f"{env.namespace}-b")
    async with env.running(operator, namespaces=both):
        for namespace in (*both, "default"):
            await env.client.create(job(env, f"in-{env.namespace}", namespace=namespace))
        await env.eventually(lambda: len(seen) == 2, "both")
    assert {namespace for namespace, _ in seen} == set(both)
    await env.client.delete(Job, f"in-{env.namespace}", namespace="default")


async def test_namespaces_by_label_come_and_go_while_the_operator_runs(env):
    await env.install(Job)
    team = env.namespace
    inside, outside = f"{team}-in", f"{team}-out"
    for name, labels in ((inside, {"team": team}), (outside, {})):
        await env.client.create(Namespace(metadata=ObjectMeta(name=name, labels=labels)))
    operator, seen = counting("by-label")
    lists = []

    @operator.timer(0.1, reads=[Job])
    async def look(ctx: Context) -> None:
        lists.append({(j.metadata.namespace, j.metadata.name) for j in ctx.list(Job, namespace=ALL_NAMESPACES)})

    async with env.running(operator, namespaces=(), namespace_selector=f"team={team}"):
        await env.eventually(lambda: lists, "the timer runs")
        for name in (inside, outside):
            await env.client.create(job(env, "early", namespace=name))
        await env.eventually(lambda: (inside, "early") in seen, "the labelled one")
        assert (outside, "early") not in seen
        await env.client.patch(Namespace, outside, MergePatch({"metadata": {"labels": {"team": team}}}))
        await env.eventually(lambda: (outside, "early") in seen, "the one that joins")
        await env.client.patch(Namespace, inside, MergePatch({"metadata": {"labels": {"team": None}}}))
        await env.eventually(lambda: "namespace_left" in env.log.getvalue(), "it leaves")
        await env.client.create(job(env, "late", namespace=inside))
        await env.client.create(job(env, "late", namespace=outside))
        await env.eventually(lambda: (outside, "late") in seen, "the other goes on")
        assert (inside, "late") not in seen
        await env.eventually(lambda: {n for n, _ in lists[-1]} == {outside}, "what has left is read no more")


async def test_secure_metrics_are_for_those_whom_the_cluster_allows(env):
    await env.install(Job)
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]

    def token_of(name, **rights):
        path = env.plane.service_account_kubeconfig(name, namespace=env.namespace, **rights)
        return yaml.safe_load(path.read_text())["users"][0]["user"]["token"]

    allowed = await asyncio.to_thread(token_of, "scraper", cluster_rules=rules)
    stranger = await asyncio.to_thread(token_of, "stranger")
    async with env.running(counting("secure")[0], metrics_bind_address="127.0.0.1:0", metrics_secure=True):
        await env.eventually(lambda: "metrics_served" in env.log.getvalue(), "the server")
        url = f"https://{address(env, 'metrics_served')}/metrics"
        trusting = ssl._create_unverified_context()  # the certificate is self-signed and new
        status, body = await env.eventually(lambda: granted(url, allowed, trusting), "the scrape")
        assert status == 200
        assert "rest_client_requests_total" in body
        assert (await fetch(url, stranger, trusting))[0] == 403
        assert (await fetch(url, "nonsense", trusting))[0] == 401
        assert (await fetch(url, None, trusting))[0] == 401
    assert allowed not in env.log.getvalue()


async def granted(url, token, context):
    answer = await fetch(url, token, context)
    return answer if answer[0] == 200 else None


@pytest.fixture
def unreachable():
    return Config.for_url("http://127.0.0.1:1")


async def test_an_unreachable_server_is_waited_for_with_one_clear_line(env, unreachable):
    operator, _ = counting("patient")
    stop = asyncio.Event()
    settings = Settings(health_probe_bind_address="127.0.0.1:0", metrics_bind_address="0", gc_tuning=False)
    life = asyncio.create_task(run_operator(operator, unreachable, settings, stop=stop))
    await env.eventually(lambda: "api_server_unusable" in env.log.getvalue(), "the line")
    status, body = await fetch(f"http://{address(env, 'probes_served')}/readyz")
    assert status == 500
    assert "the API server cannot be used" in body
    assert (await fetch(f"http://{address(env, 'probes_served')}/healthz"))[0] == 200
    await asyncio.sleep(1.5)
    stop.set()
    await life
    assert env.log.getvalue().count("api_server_unusable") == 1


async def test_revoked_credentials_end_the_leadership_with_the_reason(env):
    await env.install(Job)
    rules = [
        {"apiGroups": ["operator-tests.steersman.dev"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
    ]
    kubeconfig = await asyncio.to_thread(
        env.plane.service_account_kubeconfig, "fired", namespace=env.namespace, rules=rules
    )
    terms = {"lease_duration": 3, "renew_deadline": 1.5, "retry_period": 0.3}
    async with env.running(counting("fired")[0], kubeconfig=kubeconfig, **terms) as life:
        await env.eventually(lambda: "operator_started" in env.log.getvalue(), "it runs")
        await asyncio.to_thread(env.plane.call, "DELETE", f"/api/v1/namespaces/{env.namespace}/serviceaccounts/fired")
        with pytest.raises(LeadershipLostError, match="not renewed within"):
            async with asyncio.timeout(90):
                await asyncio.shield(life)
        env.forgive(life)
    assert "credentials were refused" in env.log.getvalue()


async def test_impersonation_is_what_the_server_judges_by(env):
    """`--as`: the refusals name the user that was impersonated, and the process stays up."""
    await env.install(Job)
    changes = {"impersonate_user": "jane", "impersonate_groups": ("dev",), "leader_elect": False}
    async with env.running(counting("as-jane")[0], **changes) as life:
        await env.eventually(lambda: 'User \\"jane\\" cannot list' in env.log.getvalue(), "the refusal")
        assert not life.done()


async def test_a_start_up_hook_that_fails_ends_the_process_and_releases_the_lease(env):
    operator, _ = counting("hookless")

    @operator.on_startup
    def begin() -> None:
        raise RuntimeError("no database")

    async with env.running(operator) as life:
        with pytest.raises(StartupHookError, match=r"test_real_replica\.py:\d+: .*begin.*no database"):
            await asyncio.shield(life)
        env.forgive(life)
    assert not (await lease(env, "hookless")).spec.holder_identity
