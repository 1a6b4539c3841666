"""Functions that need `cryptography`, called in child processes."""

import os
import subprocess
import sys

import pytest

from steersman.pki.child_process import call_in_child_process
from steersman.webhook.keystore import CertificateSecretError, keys_of

_OPERATOR = """
import asyncio, sys
from datetime import UTC, datetime
from steersman.pki.child_process import call_without_loading_cryptography as call
from steersman.webhook.keystore import advance, data_of, keys_of
from steersman.webhook.rotation import CertificateLifetimes, Create

async def main():
    hosts, now = frozenset({"web.ns.svc"}), datetime.now(UTC)
    keys = await call(advance, None, Create(), name="web", hosts=hosts, lifetimes=CertificateLifetimes(), now=now)
    stored = await call(keys_of, {"data": {key: value for key, value in data_of(keys).items() if value}})
    print(stored == keys, stored.state == keys.state, "cryptography" in sys.modules)

asyncio.run(main())
"""


def test_a_child_process_returns_the_result():
    assert call_in_child_process(os.getppid) == os.getpid()


def test_a_child_process_returns_the_exception_with_its_attributes():
    with pytest.raises(CertificateSecretError, match="another program") as caught:
        call_in_child_process(keys_of, {"data": {"tls.crt": "QQ=="}})
    assert caught.value.foreign


def test_without_child_processes_this_process_calls_the_function(monkeypatch):
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    assert call_in_child_process(os.getpid) == os.getpid()


def test_a_function_that_the_child_process_cannot_import_is_called_by_this_process():
    assert call_in_child_process(_local, 1) == (1, os.getpid())


def _local(value):
    return value, os.getpid()


def test_keys_are_created_without_loading_cryptography():
    output = subprocess.run([sys.executable, "-c", _OPERATOR], check=True, capture_output=True, text=True).stdout
    assert output.split() == ["True", "True", "False"]
