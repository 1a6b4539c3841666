"""An operator in its image on a real node: `python -m benchmarks.image [--runs N]`.

The operator is HelloApp, in the image that `steersman build` makes of it, installed by its `install.yaml`. Each run
scales its Deployment to zero and to one again, and measures the new container. It needs Linux, root, buildah and what
`make test-node` builds; elsewhere it is not measured. The start of a process is known to hundredths of a second.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from benchmarks import aside
from benchmarks.harness import Bench, BenchmarkError, NotMeasuredError
from benchmarks.rows import OURS, Bar, Numbers, Row, Size
from steersman.testing.cluster import KubectlError
from steersman.testing.real_node import RealNode, Unavailable
from steersman.testing.waiting import eventually
from tests.node.installation import RESTRICTED, Installed, package
from tests.node.operator_images import operator_image

_PROJECT: Final = "helloapp"
_WITHIN_SECONDS: Final = 120
_IDLE_SECONDS: Final = 5.0
"""Seconds after the start until memory is read."""


class NodeBench(aside.Alone):
    """A real node with the operator, which the first run starts."""

    def __init__(self) -> None:
        """Starts nothing."""
        super().__init__()
        self._opened = ExitStack()
        self._operator: Installed | None = None

    @property
    def operator(self) -> Installed:
        """The installed operator."""
        if self._operator is None:
            self._operator = self._install()
        return self._operator

    def _install(self) -> Installed:
        try:
            node = self._opened.enter_context(RealNode.start())
        except Unavailable as reason:
            raise NotMeasuredError(str(reason)) from None
        image = operator_image(_PROJECT)
        node.import_images(image.archive)
        directory = self._opened.enter_context(tempfile.TemporaryDirectory(prefix="steersman-bench-"))
        shipped = package(_PROJECT, Path(directory), image)
        node.kubectl("apply", "--server-side", "-f", str(shipped.install))
        node.kubectl("label", "namespace", shipped.namespace, RESTRICTED)
        operator = Installed(node, shipped.name, shipped.namespace)
        operator.wait_available()
        return operator

    def close(self) -> None:
        """Stop the node."""
        self._opened.close()


def image(bench: Bench, _peer: str, _size: Size, _seed: int) -> Numbers:
    """From the start of the container to its first log line and its lease, and its memory once it is idle."""
    assert isinstance(bench, NodeBench)
    try:
        return _started(bench.operator)
    except (AssertionError, KubectlError, LookupError) as error:
        raise BenchmarkError(str(error)) from error


def _started(operator: Installed) -> Numbers:
    node = operator.node
    for replicas in (0, 1):
        node.kubectl(
            "scale", f"--namespace={operator.namespace}", f"--replicas={replicas}", "deployment", operator.name
        )
        if not replicas:
            eventually(lambda: not _pods(operator), within=_WITHIN_SECONDS, what="the end of the former Pod")
    operator.wait_available()
    pod = operator.leader()
    started = operator.process(pod).started
    lines = node.kubectl("logs", f"--namespace={operator.namespace}", "--timestamps", pod["metadata"]["name"])
    first = datetime.fromisoformat(lines.split(maxsplit=1)[0]).timestamp()
    time.sleep(_IDLE_SECONDS)
    process = operator.process(pod)
    return {
        "leader_ms": (operator.led_since() - started) * 1e3,
        "first_log_ms": (first - started) * 1e3,
        "rss_mb": process.rss_bytes / 1e6,
        "pss_mb": _proportional(node.inside("cat", f"/proc/{process.pid}/smaps_rollup")) / 1e6,
    }


def _pods(operator: Installed) -> list[dict[str, Any]]:
    """Return the Pods of the operator with those that end."""
    labels = f"app.kubernetes.io/name={operator.name}"
    return operator.node.list("pods", namespace=operator.namespace, labels=labels)


def _proportional(smaps: str) -> int:
    """Return the bytes of the line `Pss:`."""
    return next(int(line.split()[1]) * 1024 for line in smaps.splitlines() if line.startswith("Pss:"))


ROWS = (
    Row(
        "image", "HelloApp in its image on a real node, from the start of its container", aside.told(image),
        Size(), Size(), (OURS,), (Bar("leader_ms", 1000, ""), Bar("rss_mb", 50, "")), runs=5,
    ),
)  # fmt: skip

STUDY = aside.Study("image", (__doc__ or "").splitlines()[0], ROWS, NodeBench)

if __name__ == "__main__":
    sys.exit(aside.main(STUDY))
