"""The lock of a Pod: what the kernel tells about the processes of one Pod that seek one lease."""

import os
import signal
import subprocess
import sys
import uuid

import pytest

from steersman.operator.leaderelection.pod_lock import PodLock, new_identity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux'")

HOLD = """
import sys
from steersman.operator.leaderelection.pod_lock import PodLock
lock = PodLock.acquire(sys.argv[1], "ns", "op")
print("held" if lock else "refused", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def process():
    """Starts a process that tries to lock a Pod; returns the process and the result."""
    started = []

    def start(uid):
        child = subprocess.Popen(
            [sys.executable, "-c", HOLD, uid], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(child)
        return child, child.stdout.readline().strip()

    yield start
    for child in started:
        child.kill()
        child.communicate()


def test_one_process_at_a_time_has_the_lock_of_a_pod(process):
    """L1: a second process of the Pod, as kubectl exec starts one, is refused for as long as the first one lives."""
    uid = str(uuid.uuid4())
    first, got = process(uid)
    assert got == "held"
    assert process(uid)[1] == "refused"
    os.kill(first.pid, signal.SIGSTOP)
    assert PodLock.acquire(uid, "ns", "op") is None, "a frozen process is alive"
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    lock = PodLock.acquire(uid, "ns", "op")
    assert lock is not None, "the kernel frees the lock of a process that was killed"
    lock.close()


def test_a_lock_is_one_pods_and_one_leases():
    uid = str(uuid.uuid4())
    locks = [PodLock.acquire(uid, "ns", "op"), PodLock.acquire(uid, "ns", "op2"), PodLock.acquire(uid, "ns2", "op")]
    locks.append(PodLock.acquire(str(uuid.uuid4()), "ns", "op"))
    assert all(locks)
    assert PodLock.acquire(uid, "ns", "op") is None
    for lock in locks:
        lock.close()


def test_names_of_any_length_make_a_lock():
    lock = PodLock.acquire(str(uuid.uuid4()), "n" * 63, "l" * 253)
    assert lock is not None
    lock.close()


def test_an_identity_names_host_pod_and_process():
    """L1: two processes never have one identity; those of one Pod share what stands before the random part."""
    first, second = new_identity("0d2f"), new_identity("0d2f")
    assert first != second
    assert first.rsplit("_", 1)[0] == second.rsplit("_", 1)[0]
    assert first.rsplit("_", 2)[1] == "0d2f"
