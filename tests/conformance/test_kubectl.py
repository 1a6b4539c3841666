"""Unmodified kubectl on both clusters: the same command, the same outcome, the same words."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from steersman.client import Client
from steersman.testing import Cluster, ControlPlane, EmbeddedCluster, available
from steersman_cluster import nodes
from steersman_cluster.nodes.behaviour import Defaults

from .kubectl import Run, same

CONFIG = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm, labels: {set: x}}\ndata: {a: "1"}\n'
CHANGED = CONFIG.replace('"1"', '"2"')
UNKNOWN = CONFIG.replace("data:", "datum:")
SET_TWO = CONFIG.replace("name: cm", "name: cm2")
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  containers:
  - {name: c, image: nginx, resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}, env: [{name: A, value: b}]}
"""
HARD = "pods=2,requests.cpu=1,services.nodeports=1,count/configmaps=2,count/roles.rbac.authorization.k8s.io=1"
SIZED = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: %s}}}]}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "nginx:1", ports: [{containerPort: 80}]}]}
"""
BARE_NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: '{ns}-more'}\n"
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: '{ns}-more', labels: {a: b}}\n"
ROLE = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: rec}\nrules: [%s]\n"
READ_PODS = '{apiGroups: [""], resources: [pods], verbs: [get]}'
ROLLED = "rollout status deploy web --timeout=30s"

LIST = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {a: b}}
- {apiVersion: v1, kind: Secret, metadata: {name: two}, stringData: {a: b}}
"""
UNKNOWN_KIND = "{apiVersion: nowhere.example.com/v1, kind: Nothing, metadata: {name: one}}"
DEFINITION_AND_OBJECT = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.kubectl.example.com}
spec:
  group: kubectl.example.com
  names: {kind: Gadget, plural: gadgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
---
apiVersion: kubectl.example.com/v1
kind: Gadget
metadata: {name: one}
spec: {size: 3}
"""
STORIES: dict[str, list[Run | str]] = {
    "config maps": [
        "create configmap one --from-literal=a=b",
        "create configmap one --from-literal=a=b",
        "get configmap one -o json",
        "get cm one -o yaml",
        "get cm one -o jsonpath={.data.a}",
        "get cm one -o go-template={{.metadata.name}}",
        "get cm -o custom-columns=N:.metadata.name,D:.data.a",
        "get cm",
        "get cm --show-labels",
        "get cm -o name",
        "get cm nope",
        "get cm nope --ignore-not-found",
        "describe cm one",
        "describe cm nope",
        "create secret generic s --from-literal=k=v",
        "get secret s -o wide",
        "describe secret s",
        "create secret docker-registry d --docker-server=a --docker-username=b --docker-password=c",
        "get cm,secret",
    ],
    "apply": [
        Run("apply -f -", CONFIG),
        Run("apply -f -", CONFIG),
        Run("diff -f -", CONFIG),
        Run("diff -f -", CHANGED),
        Run("diff --server-side --field-manager=other -f -", CHANGED),
        Run("apply -f -", CHANGED),
        Run("apply view-last-applied -f -", CONFIG),
        Run("apply --server-side -f -", CONFIG),
        Run("apply --server-side --force-conflicts -f -", CONFIG),
        Run("apply --server-side --field-manager=other -f -", CHANGED),
        "get cm cm -o yaml --show-managed-fields",
        Run("apply -f -", SET_TWO),
        Run("apply --prune --prune-allowlist=core/v1/ConfigMap -l set=x -f -", CONFIG),
        Run("replace -f -", CHANGED),
        Run("replace --force -f -", CHANGED),
        Run("apply -f -", UNKNOWN),
        Run("apply --validate=warn -f -", UNKNOWN),
        Run("apply --validate=ignore -f -", UNKNOWN),
        Run("create --dry-run=server -o yaml -f -", SET_TWO),
        Run("apply --dry-run=server -f -", SET_TWO),
        Run("apply --dry-run=client -f -", SET_TWO),
        Run("delete -f -", CONFIG),
        Run("delete -f -", CONFIG),
    ],
    "apply a namespace twice": [
        Run("apply -f -", BARE_NAMESPACE),
        Run("apply -f -", BARE_NAMESPACE),
        Run("apply -f -", NAMESPACE),
        Run("apply -f -", NAMESPACE),
        "get ns {ns}-more -o yaml",
        "label ns {ns}-more a=c --overwrite",
        "annotate ns {ns}-more note=hi",
        Run("apply -f -", NAMESPACE),
        Run("replace -f -", NAMESPACE),
        "delete ns {ns}-more --wait=false",
    ],
    "patches": [
        Run("apply -f -", CONFIG),
        """patch cm cm -p '{"data":{"b":"3"}}'""",
        """patch cm cm -p '{"data":{"b":"3"}}'""",
        """patch cm cm --type=json -p '[{"op":"remove","path":"/data/b"}]'""",
        """patch cm cm --type=json -p '[{"op":"remove","path":"/data/zz"}]'""",
        """patch cm cm --type=merge -p '{"data":{"c":null}}'""",
        """patch cm cm --type=merge -p '{"data":5}'""",
        """patch cm cm -p '{"data":'""",
        "label cm cm x=y",
        "label cm cm x=z",
        "label cm cm x=z --overwrite",
        "label cm cm x-",
        "label cm cm bad==v",
        "annotate cm cm note=hi",
        Run("edit cm cm", editor="sed -i s/hi/ho/"),
        "edit cm cm",
        "get cm cm -o yaml",
        "delete cm -l set=x",
        "delete cm --all",
    ],
    "deployments": [
        Run("apply -f -", DEPLOYMENT),
        ROLLED,
        "get deploy web -o wide",
        "get deploy web -o yaml",
        Run("get rs,pods", anyhow=True),
        "scale deploy web --replicas=1",
        "scale deploy web --replicas=3 --current-replicas=9",
        ROLLED,
        "set image deploy/web c=nginx:2",
        ROLLED,
        "rollout history deploy web",
        "rollout history deploy web --revision=2",
        "rollout history deploy web --revision=9",
        "rollout undo deploy web --to-revision=9",
        "rollout undo deploy web",
        ROLLED,
        "rollout undo deploy web",
        "rollout pause deploy web",
        "rollout pause deploy web",
        "rollout restart deploy web",
        "rollout resume deploy web",
        "rollout restart deploy web",
        ROLLED,
        "set env deploy/web A=B",
        "set env deploy/web --list",
        "set resources deploy/web --limits=cpu=100m",
        ROLLED,
        "describe deploy web --show-events=false",
        "expose deploy web --port=80",
        "get svc web",
        "describe svc web",
        "set selector svc web app=web2",
        "get pods --field-selector=status.phase=Running,spec.nope=1",
        "delete deploy web --cascade=foreground",
        Run("get deploy,rs,pods", anyhow=True),
    ],
    "a deployment of nothing": [
        "create deployment two --image=a --image=b --replicas=0",
        "wait --for=jsonpath={.status.observedGeneration}=1 deploy/two --timeout=10s",
        "get deploy two -o yaml",
        "get rs",
        "delete deploy two --cascade=orphan",
        "get rs",
    ],
    "pods": [
        Run("create -f -", POD),
        "wait --for=condition=Ready pod/p --timeout=20s",
        "wait --for=jsonpath={.status.phase}=Running pod/p --timeout=5s",
        "wait --for=condition=Nope pod/p --timeout=0s",
        "wait --for=condition=Ready pod/nope --timeout=1s",
        "get pod p",
        "get pod p -o wide",
        Run("describe pod p", anyhow=True),
        "get pods --field-selector=status.phase=Running -l app=p",
        "get pods --field-selector=spec.nope=1",
        "get pods -l 'app in (p'",
        "get events --field-selector=involvedObject.name=p,reason=Scheduled",
        "top pods",
        "set image pod/p c=nginx:2",
        "run r --image=nginx --restart=Never",
        "run r --image=nginx",
        "annotate pod r x=y",
        "delete pod r --force --grace-period=0",
        "delete pod p --grace-period=0",
        "delete pod p",
        "wait --for=delete pod/p --timeout=10s",
    ],
    "workloads": [
        "create job j --image=busybox -- true",
        "create cronjob cj --image=busybox --schedule='*/5 * * 1 *'",
        "create cronjob bad --image=busybox --schedule=nonsense",
        "get cronjob",
        "describe cronjob cj",
        "create job now --from=cronjob/cj",
        "get job now -o jsonpath={.metadata.annotations}",
        "create job lost --from=cronjob/nope",
        "create pdb d --selector=app=web --min-available=1",
        "get pdb",
        "create ingress i --rule=a.b/c=web:80",
        "describe ingress i",
        "get ingress",
        "create quota q --hard=pods=20",
        "get quota q",
        "describe quota q",
        "create priorityclass {ns} --value=5 --description=x",
        "get pc {ns} -o yaml",
        "delete pc {ns}",
    ],
    "quotas": [
        f"create quota q --hard={HARD}",
        "wait --for=jsonpath={.status.used.pods}=0 quota/q --timeout=10s",
        "wait --for=jsonpath={.status.used.count/configmaps}=1 quota/q --timeout=10s",
        "get quota q -o yaml",
        "describe quota q",
        "run none --image=a",
        Run("create -f -", SIZED % ("one", "600m")),
        "wait --for=jsonpath={.status.used.pods}=1 quota/q --timeout=10s",
        Run("create -f -", SIZED % ("two", "600m")),
        Run("create -f -", SIZED % ("two", "400m")),
        "wait --for=jsonpath={.status.used.pods}=2 quota/q --timeout=10s",
        Run("create -f -", SIZED % ("three", "1m")),
        "create cm one",
        "create cm two",
        "create role one --verb=get --resource=pods",
        "create role two --verb=get --resource=pods",
        "create service nodeport np --tcp=80",
        "create service nodeport more --tcp=80",
        "create service clusterip less --tcp=80",
        """patch svc less -p '{"spec":{"type":"NodePort"}}'""",
        "get quota q -o jsonpath={.status}",
        "delete pod one --force --grace-period=0",
        "wait --for=jsonpath={.status.used.pods}=1 quota/q --timeout=10s",
        Run("create -f -", SIZED % ("three", "1m")),
        "create quota best --hard=pods=0 --scopes=BestEffort",
        "create quota worse --hard=pods=0 --scopes=Nope",
        "describe quota best",
    ],
    "services": [
        "create service clusterip cs --tcp=80:8080",
        "create service nodeport np --tcp=80",
        "create service externalname en --external-name=a.b",
        "create service loadbalancer lb --tcp=80",
        "get svc",
        "get svc cs -o yaml",
        "describe svc en",
        "expose service cs --name=again --port=81",
        "create service clusterip cs --tcp=80",
        "delete svc cs np en lb again",
    ],
    "access": [
        "create serviceaccount bot",
        "get sa bot -o yaml",
        "create role r --verb=get,list --resource=pods",
        "create role odd --verb=frob --resource=nopes",
        "describe role r",
        "create rolebinding rb --role=r --serviceaccount={ns}:bot",
        "describe rolebinding rb",
        "get rolebinding,role -o wide",
        "auth can-i create pods",
        "auth can-i get pods --as=system:serviceaccount:{ns}:bot",
        "auth can-i delete pods --as=system:serviceaccount:{ns}:bot",
        "auth can-i --list --as=system:serviceaccount:{ns}:bot",
        "auth can-i get pods --as=nobody",
        "auth can-i use nopes",
        "auth whoami --as=jane --as-group=devs",
        "get pods --as=jane",
        "get pods --as=jane -A",
        "create cm c --as=jane",
        Run("auth reconcile -f -", ROLE % READ_PODS),
        Run("auth reconcile -f -", ROLE % READ_PODS),
        Run("auth reconcile -f -", ROLE % READ_PODS.replace("get", "list")),
        Run("apply -f -", ROLE % ""),
        "create token bot --duration=1s",
        "create token nobody",
        "certificate approve nope",
    ],
    "what there is": [
        "api-resources",
        "api-resources -o wide",
        "api-resources --namespaced=false -o name --sort-by=name",
        "api-versions",
        "explain pods",
        "explain deployment.spec.strategy --recursive",
        "explain cronjob.spec.jobTemplate --api-version=batch/v1",
        "explain pod.spec.nope",
        "explain nope",
        "get nope",
        "get --raw /version/nope",
        "get --raw /healthz",
        "get --raw /livez",
        "get --raw /readyz",
        "get --raw '/readyz?verbose'",
        "get --raw '/livez?verbose'",
        "get --raw '/healthz?verbose'",
        "get --raw '/readyz?verbose&exclude=etcd'",
        "get --raw '/readyz?verbose&exclude=etcd&exclude=nope&exclude=b'",
        "get --raw /readyz/etcd",
        "get --raw /readyz/nope",
        "cluster-info",
        "get all",
        "get crd",
        "get pc",
        "get clusterrole view -o yaml",
        "get clusterroles -o name",
        "describe clusterrole view",
        "get ns",
        "describe ns {ns}",
        "create namespace Bad_Name",
        "cordon nope",
        "taint nodes node-1 k=v:NoSchedule",
        "taint nodes node-1 k-",
        "cordon node-1",
        "get nodes",
        "uncordon node-1",
        "top nodes",
    ],
    "lists and unknown kinds": [
        Run("apply -f -", LIST),
        Run("apply -f -", LIST),
        Run("apply --server-side -f -", LIST),
        Run("apply --dry-run=server -f -", LIST),
        Run("apply -f -", UNKNOWN_KIND),
        Run("apply -f -", DEFINITION_AND_OBJECT),
        "wait --for=condition=established crd/gadgets.kubectl.example.com --timeout=30s",
        Run("apply -f -", DEFINITION_AND_OBJECT, asked_again=True),
        "get gadgets",
        "explain pod.spec.nodeName --output=plaintext-openapiv2",
        "explain configmap --output=plaintext-openapiv2",
        "delete crd gadgets.kubectl.example.com",
    ],
}


@contextmanager
def simulated(cluster: Cluster) -> Iterator[None]:
    """One simulated node on another control plane, in a thread."""
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def live() -> None:
        async with Client(cluster.config) as client:
            handles = await nodes.start(client, names=("node-1",), defaults=Defaults(ready_after=0.0))
            ready.set()
            await stop.wait()
            await handles.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()), name="nodes")
    thread.start()
    assert ready.wait(30)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    """Both, whole: controllers, scheduler, and the same sort of node."""
    if (reason := available("kubectl", "kube-controller-manager", "kube-scheduler")) is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        embedded = stack.enter_context(EmbeddedCluster.start(metrics=False))  # the real one has no metrics server
        real = stack.enter_context(ControlPlane.start(controller_manager=True, scheduler=True))
        stack.enter_context(simulated(real))
        yield embedded, real


@pytest.mark.parametrize("story", STORIES)
async def test_kubectl_says_the_same(clusters: tuple[Cluster, Cluster], story: str):
    namespace = f"k-{os.urandom(5).hex()}"
    for cluster in clusters:
        await asyncio.to_thread(cluster.create_namespace, namespace)
    await same(clusters, namespace, *STORIES[story])
    for cluster in clusters:
        await asyncio.to_thread(cluster.delete_namespace, namespace)
