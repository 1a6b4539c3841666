"""Runs the operator as in production: as a process that connects to the cluster of a kubeconfig."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parent.parent.parent


@contextmanager
def running(kubeconfig: Path, log: Path, *arguments: str) -> Iterator[None]:
    """Run `steersman run` during the block, and print its log if the block fails."""
    command = [sys.executable, "-m", "steersman", "run", "helloapp:operator", "--kubeconfig", str(kubeconfig)]
    command += ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--no-leader-elect", *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield
    except BaseException:
        print(log.read_text(errors="replace")[-4000:])
        raise
    finally:
        process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
