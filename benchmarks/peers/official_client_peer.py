"""The peer of the official Python client: its SharedInformer, and a controller as one writes it around that.

Custom resources arrive as dicts and built-in kinds as models, as the client's API classes have them. The client has
no work queue: keys go through a `queue.Queue`, a key only once while it waits, to threads that write with
`CustomObjectsApi`. Nothing here changes what the client does: where it cannot do something, this peer cannot.
"""

from __future__ import annotations

import argparse
import functools
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

from kubernetes import client, config
from kubernetes.informer import ADDED, MODIFIED, SharedInformer

from benchmarks.peers.meter import STAMP, Meter

GROUP, VERSION, PLURAL = "bench.steersman.dev", "v1", "widgets"
LISTS = {
    "pods": ("list_pod_for_all_namespaces", "list_namespaced_pod"),
    "configmaps": ("list_config_map_for_all_namespaces", "list_namespaced_config_map"),
}
meter = Meter()
counting = threading.Lock()
"""`+=` on a counter is not atomic; handlers of several informers and workers run in threads of their own."""


def count(counter: str) -> int:
    """One more of that counter of the meter; answers how many there are."""
    with counting:
        value = getattr(meter, counter) + 1
        setattr(meter, counter, value)
        return value


class Synced:
    """Says once that every informer has listed: the client itself does not tell, but it watches only after that."""

    def __init__(self, informers: int) -> None:
        self._missing = informers
        self._lock = threading.Lock()

    def watching(self) -> None:
        with self._lock:
            self._missing -= 1
            if self._missing == 0:
                meter.mark("synced")


def source(options: argparse.Namespace, synced: Synced) -> Callable[..., Any]:
    """Return the function that lists and watches the kind, as an informer calls it."""
    listing = _widgets(options) if options.kind == "widgets" else _built_in(options)
    watched = threading.local()

    @functools.wraps(listing)
    def listed(**kwargs: Any) -> Any:
        if kwargs.get("watch") and not getattr(watched, "already", False):
            watched.already = True  # a thread for each informer
            synced.watching()
        return listing(**kwargs)

    return listed


def _built_in(options: argparse.Namespace) -> Callable[..., Any]:
    everywhere, namespaced = LISTS[options.kind]
    return getattr(client.CoreV1Api(), namespaced if options.namespaces else everywhere)


def _widgets(options: argparse.Namespace) -> Callable[..., Any]:
    api = client.CustomObjectsApi()
    # Typed as loosely as it is called: the two take other parameters.
    listing: Callable[..., Any] = (
        api.list_namespaced_custom_object if options.namespaces else api.list_cluster_custom_object
    )

    @functools.wraps(listing)  # a watch learns from the signature what it is to decode
    def widgets(**kwargs: Any) -> Any:
        answer: Any = listing(group=GROUP, version=VERSION, plural=PLURAL, **kwargs)
        if kwargs.get("watch"):
            return answer
        # The informer reads attributes, and the list of a custom resource is a dict.
        metadata = SimpleNamespace(resource_version=answer["metadata"]["resourceVersion"])
        return SimpleNamespace(items=answer["items"], metadata=metadata)

    return widgets


class Controller:
    """A work queue and its workers: a key waits at most once and is never worked on twice at a time."""

    def __init__(self, informer: SharedInformer, patches: bool, workers: int) -> None:
        self._informer = informer
        self._patches = patches
        self._api = client.CustomObjectsApi()
        self._queue: queue.Queue[str] = queue.Queue()
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._working: set[str] = set()
        self._generations: dict[str, int | None] = {}
        for index in range(workers):
            threading.Thread(target=self._work, name=f"worker-{index}", daemon=True).start()

    def changed(self, obj: Any) -> bool:
        """Queue the object when its generation is new; answers whether it was."""
        metadata = _metadata(obj)
        key, generation = f"{metadata['namespace']}/{metadata['name']}", metadata.get("generation")
        if generation is not None and self._generations.get(key) == generation:
            return False
        self._generations[key] = generation
        with self._lock:
            if key not in self._waiting:
                self._waiting.add(key)
                if key not in self._working:
                    self._queue.put(key)
        return True

    def _work(self) -> None:
        while True:
            key = self._queue.get()
            with self._lock:
                self._waiting.discard(key)
                self._working.add(key)
            try:
                self._reconcile(key)
            except client.ApiException:
                count("errors")
                with self._lock:
                    self._waiting.add(key)
            finally:
                with self._lock:
                    self._working.discard(key)
                    if key in self._waiting:
                        self._queue.put(key)

    def _reconcile(self, key: str) -> None:
        obj = self._informer.cache.get_by_key(key)
        if obj is None:
            return
        nth = count("reconciles")
        metadata = _metadata(obj)
        meter.stamped((metadata.get("annotations") or {}).get(STAMP))
        if self._patches:
            self._report(obj)
        if nth == 1:
            meter.mark("first-reconcile")

    def _report(self, widget: dict[str, Any]) -> None:
        metadata = widget["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        status = {
            "observedGeneration": metadata["generation"],
            "phase": "Ready",
            "readyReplicas": widget["spec"]["replicas"],
            "endpoint": f"{name}.{namespace}.svc:8080",
        }
        if widget.get("status") == status:
            return
        self._api.patch_namespaced_custom_object_status(
            GROUP, VERSION, namespace, PLURAL, name, {"status": status}, _content_type="application/merge-patch+json"
        )
        count("patches")


def _metadata(obj: Any) -> dict[str, Any]:
    if isinstance(obj, dict):
        return obj["metadata"]
    metadata = obj.metadata
    return {
        "name": metadata.name,
        "namespace": metadata.namespace,
        "generation": metadata.generation,
        "annotations": metadata.annotations,
    }


def run(options: argparse.Namespace) -> Sequence[SharedInformer]:
    """Start an informer for each namespace, and its controllers."""
    scopes = [f"bench-{n}" for n in range(options.namespaces)] or [None]
    listing = source(options, Synced(len(scopes)))
    informers = [SharedInformer(listing, namespace=scope) for scope in scopes]
    for informer in informers:
        if options.mode == "informer":
            informer.add_event_handler(ADDED, lambda _: count("seen"))
            informer.add_event_handler(MODIFIED, lambda _: count("events"))
            continue
        first, *others = [
            Controller(informer, options.mode == "patch", options.workers) for _ in range(options.controllers)
        ]
        informer.add_event_handler(ADDED, lambda obj, first=first: first.changed(obj) and count("seen"))
        informer.add_event_handler(MODIFIED, lambda obj, first=first: first.changed(obj) and count("events"))
        for other in others:
            informer.add_event_handler(ADDED, other.changed)
            informer.add_event_handler(MODIFIED, other.changed)
    for informer in informers:
        informer.start()
    return informers


def main() -> int:
    """Run until SIGTERM, or until stdin closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kind", default="widgets")
    parser.add_argument("--mode", default="informer", choices=["informer", "noop", "patch", "apply"])
    parser.add_argument("--form", default="typed", choices=["typed", "unstructured", "metadata"])
    parser.add_argument("--wire", default="json", choices=["json", "protobuf"])
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--namespaces", type=int, default=0)
    parser.add_argument("--workers", type=int, default=16)
    options = parser.parse_args()
    check(options)
    meter.mark("starting")
    meter.obey()
    settings = client.Configuration()
    config.load_kube_config(options.kubeconfig, client_configuration=settings)
    # The default, five for each core, would drop and redial connections of threads beyond it.
    settings.connection_pool_maxsize = options.workers + 4
    client.Configuration.set_default(settings)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    informers = run(options)
    stopped.wait()
    stop(informers)
    return 0


def stop(informers: Sequence[SharedInformer]) -> None:
    """Stop the informers; one that does not notice, which happens, is left to the end of the process."""
    stopping = [threading.Thread(target=informer.stop, daemon=True) for informer in informers]
    for thread in stopping:
        thread.start()
    deadline = time.monotonic() + 5
    for thread in stopping:
        thread.join(max(0.0, deadline - time.monotonic()))


def check(options: argparse.Namespace) -> None:
    """Ends the process with status 3 when the client has no such thing."""
    if options.wire == "protobuf":
        impossible("the official client speaks JSON only")
    if options.kind not in (PLURAL, *LISTS):
        impossible(f"kind {options.kind!r} is not there")
    if options.form == "metadata" or (options.form == "unstructured" and options.kind != PLURAL):
        impossible("the client's informer gives custom resources as dicts, built-in kinds as models, and no other form")
    if options.mode == "apply" or (options.mode == "patch" and options.kind != PLURAL):
        impossible("modes are informer, noop, and for widgets patch")
    if options.controllers > 1 and options.mode == "informer":
        impossible("controllers need a mode with a controller")


def impossible(what: str) -> NoReturn:
    print(what, file=sys.stderr)
    raise SystemExit(3)


if __name__ == "__main__":
    sys.exit(main())
