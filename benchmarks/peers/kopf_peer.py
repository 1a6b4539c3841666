"""The kopf peer: handlers of Widgets, as kopf's users write them.

It is what `pip install kopf` and `kopf run` make of it; with `--uvloop`, what `pip install 'kopf[uvloop]'` does.
Several controllers are several handlers: kopf calls them in turn for one change and writes for all at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, NoReturn

import kopf

from benchmarks.peers.meter import STAMP, Meter

meter = Meter()
GROUP, VERSION, PLURAL = "bench.steersman.dev", "v1", "widgets"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.scanning.disabled = True
    settings.persistence.finalizer = f"{GROUP}/kopf"


async def read(meta: kopf.Meta, **_: Any) -> None:
    """Mode noop: nothing to write, save what kopf itself writes down."""
    reconciled(meta)


async def report(meta: kopf.Meta, spec: kopf.Spec, patch: kopf.Patch, name: str, namespace: str, **_: Any) -> None:
    """Mode patch: the status, with whatever kopf writes at that time."""
    reconciled(meta)
    patch.status.update(
        observedGeneration=meta["generation"],
        phase="Ready",
        readyReplicas=spec["replicas"],
        endpoint=f"{name}.{namespace}.svc:8080",
    )


def reconciled(meta: kopf.Meta) -> None:
    meter.reconciles += 1
    if meter.reconciles == 1:
        meter.mark("first-reconcile")  # before its latency is noted: a mark takes along those that it reports
    meter.stamped(meta.annotations.get(STAMP))


@kopf.on.event(GROUP, VERSION, PLURAL)
async def counted(type: str | None, **_: Any) -> None:
    if type is None:
        meter.seen += 1
    else:
        meter.events += 1


def main() -> None:
    """Run until SIGTERM, or until stdin closes."""
    options = parsed()
    kopf.configure()

    os.environ["KUBECONFIG"] = options.kubeconfig

    @kopf.on.login()
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.startup()
    def limit(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.queueing.worker_limit = options.workers

    if options.mode != "informer":
        handler = read if options.mode == "noop" else report
        for index in range(options.controllers):
            kopf.on.update(GROUP, VERSION, PLURAL, id=f"bench-{index}")(handler)

    meter.mark("starting")
    meter.obey()
    loop = None
    if options.uvloop:  # `kopf run` uses it where it is installed; kopf.run() leaves the choice to the caller
        import uvloop

        loop = uvloop.new_event_loop()
    namespaces = [f"bench-{n}" for n in range(options.namespaces)]
    kopf.run(clusterwide=not namespaces, namespaces=namespaces, standalone=True, loop=loop)


def parsed() -> argparse.Namespace:
    """The command line; ends the process with status 3 when kopf has no such thing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kind", default=PLURAL)
    parser.add_argument("--mode", default="patch", choices=["informer", "noop", "patch", "apply"])
    parser.add_argument("--form", default="typed", choices=["typed", "unstructured", "metadata"])
    parser.add_argument("--wire", default="json", choices=["json", "protobuf"])
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--namespaces", type=int, default=0)
    parser.add_argument("--workers", type=int, help="by default as many as there are objects at work, as kopf has it")
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    if options.kind != PLURAL:
        impossible("kopf is measured with widgets")
    if options.mode == "apply":
        impossible("kopf has no way of its own to make children: its users call another client")
    if options.form == "metadata" or options.wire == "protobuf":
        impossible("kopf reads whole objects as JSON")
    return options


def impossible(what: str) -> NoReturn:
    print(what, file=sys.stderr)
    raise SystemExit(3)


if __name__ == "__main__":
    main()
