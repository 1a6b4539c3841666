"""The kopf peer: one handler that writes the status of a Widget whenever it changes, as kopf's users write it.

It is what `pip install kopf` and `kopf run` make of it; with `--uvloop`, what `pip install 'kopf[uvloop]'` does.
"""

from __future__ import annotations

import argparse
import base64
import tempfile
from typing import Any

import kopf
import yaml

from benchmarks.peers.meter import STAMP, Meter

meter = Meter()
GROUP, VERSION, PLURAL = "bench.steersman.dev", "v1", "widgets"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.scanning.disabled = True
    settings.persistence.finalizer = f"{GROUP}/kopf"


@kopf.on.update(GROUP, VERSION, PLURAL)
async def updated(meta: kopf.Meta, spec: kopf.Spec, patch: kopf.Patch, name: str, namespace: str, **_: Any) -> None:
    meter.reconciles += 1
    meter.stamped(meta.annotations.get(STAMP))
    if meter.reconciles == 1:
        meter.mark("first-reconcile")
    patch.status.update(
        observedGeneration=meta["generation"],
        phase="Ready",
        readyReplicas=spec["replicas"],
        endpoint=f"{name}.{namespace}.svc:8080",
    )


@kopf.on.event(GROUP, VERSION, PLURAL)
async def counted(type: str | None, **_: Any) -> None:
    if type is None:
        meter.seen += 1
    else:
        meter.events += 1


def main() -> None:
    """Run until stdin closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    kopf.configure()

    @kopf.on.login()
    def login(**_: Any) -> kopf.ConnectionInfo:
        with open(options.kubeconfig, encoding="utf-8") as file:
            cluster = yaml.safe_load(file)["clusters"][0]["cluster"]
        with tempfile.NamedTemporaryFile(delete=False, suffix=".pem") as ca:
            ca.write(base64.b64decode(cluster["certificate-authority-data"]))
        return kopf.ConnectionInfo(server=cluster["server"], ca_path=ca.name, token="bench")

    meter.mark("starting")
    meter.obey()
    loop = None
    if options.uvloop:  # `kopf run` uses it where it is installed; kopf.run() leaves the choice to the caller
        import uvloop

        loop = uvloop.new_event_loop()
    kopf.run(clusterwide=True, standalone=True, loop=loop)


if __name__ == "__main__":
    main()
