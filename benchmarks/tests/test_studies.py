"""The studies beside the rows: what they are made of holds together, without measuring anything."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import aside, embedded, image, pythons, real, real_load, toolchains, transports, webhook
from benchmarks.harness import BenchmarkError, NotMeasuredError
from benchmarks.peers import httptools_peer, transport_peer
from benchmarks.rows import ROWS, Row, Size
from steersman.client.config import Config
from steersman.testing import BinariesNotFoundError


def test_no_two_rows_share_a_name():
    names = [
        row.name
        for rows in (ROWS, real.ROWS, transports.ROWS, pythons.ROWS, webhook.ROWS, embedded.ROWS, image.ROWS)
        for row in rows
    ]
    assert len(names) == len(set(names))


def test_every_bar_is_on_peers_that_its_row_measures():
    for row in (*real.ROWS, *transports.ROWS, *webhook.ROWS, *embedded.ROWS, *image.ROWS):
        for bar in row.bars:
            assert {bar.ours, bar.against} - {""} <= set(row.peers), row.name


def test_an_image_is_not_measured_where_no_node_can_run(monkeypatch):
    monkeypatch.setattr(image.RealNode, "_check_machine", classmethod(_refuse_machine))
    bench = image.NodeBench()
    with pytest.raises(NotMeasuredError, match="needs root"):
        image.ROWS[0].measure(bench, "steersman", Size(), 1)
    bench.close()


def _refuse_machine(_cls):
    raise image.Unavailable("a real node needs root")


@pytest.mark.parametrize("name", transport_peer.TRANSPORTS)
async def test_every_transport_of_the_list_can_be_made(name):
    await transport_peer.make(name, Config.for_url("http://127.0.0.1:1")).close()


def test_this_interpreter_is_found_and_tells_how_it_was_built():
    version = ".".join(map(str, sys.version_info[:3]))
    probed = pythons.probe(Path(sys.executable))
    assert probed is not None
    assert probed.version.startswith(version)
    assert "GIL" in probed.flags


def test_what_is_no_python_is_refused_by_name():
    with pytest.raises(BenchmarkError, match="no CPython"):
        pythons.found([Path("/bin/true")])


def test_a_python_that_was_unpacked_and_not_installed_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchains, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(pythons, "cache_dir", lambda: tmp_path)
    binaries = tmp_path / "interpreters" / "elsewhere" / "usr" / "bin"
    binaries.mkdir(parents=True)
    for name in ("python3.14", "python3.14t", "python3.14-config", "pydoc3.14"):
        (binaries / name).touch()
    assert [path.name for path in pythons._unpacked()] == ["python3.14", "python3.14t"]


def _results(rows, machine=()):
    return {"machine": dict(machine), "quick": False, "runs": 1, "rows": rows, "failed": {}}


def test_the_interpreters_are_compared_with_the_quickest_in_a_sentence():
    peers = {"python-3.11.2": [{"cpu_us": 88.0}], "python-3.14.0": [{"cpu_us": 80.0}]}
    machine = {"CPU": "one", "python-3.11.2": "-O2, GIL", "python-3.14.0": "-O2, GIL"}
    assert list(pythons.words(_results({"python-patch": peers}, machine))) == [
        "CPython 3.14.0 takes the least CPU for an update: for its 1.00 it is 1.10 on CPython 3.11.2.",
        "CPython 3.11.2 and 3.14.0: -O2, GIL.",
    ]


def test_interpreters_that_were_not_measured_are_not_compared():
    assert list(pythons.words(_results({}))) == []


def _raising(error):
    @aside.told
    def measure(_bench, _peer, _size, _seed):
        raise error

    return measure


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (ExceptionGroup("tasks", [ExceptionGroup("more", [ConnectionResetError("gone")])]), BenchmarkError, "gone"),
        (TimeoutError(), BenchmarkError, "TimeoutError"),
        (BinariesNotFoundError("no etcd"), NotMeasuredError, "no etcd"),
    ],
)
def test_a_run_whose_connections_fail_is_a_run_that_cannot_be_trusted(error, kind, said):
    with pytest.raises(BenchmarkError, match=said) as raised:
        _raising(error)(aside.Alone(), "peer", Size(), 1)
    assert type(raised.value) is kind


def _study(*measures):
    rows = [Row(f"row-{n}", "", measure, Size(), Size(), ("steersman",)) for n, measure in enumerate(measures)]
    return aside.Study("nothing", "Nothing", rows, facts=lambda: {"weather": "fair"})


def test_a_study_tells_what_failed_and_keeps_the_rest(tmp_path, capsys):
    kept = tmp_path / "kept.json"
    study = _study(lambda *_: {"cpu_us": 1.0}, _raising(TimeoutError("too late")))
    assert aside.main(study, ["--json", str(kept), "--runs", "2"]) == 2
    results = json.loads(kept.read_text())
    assert results["rows"]["row-0"] == {"steersman": [{"cpu_us": 1.0}, {"cpu_us": 1.0}]}
    assert results["failed"]["row-1"] == {"steersman": "too late"}
    assert results["machine"]["weather"] == results["taken"]["row-0"]["machine"]["weather"] == "fair"
    assert "too late" in capsys.readouterr().out


def test_one_row_measured_anew_leaves_the_others_as_they_were(tmp_path):
    kept = tmp_path / "kept.json"
    aside.main(_study(lambda *_: {"cpu_us": 1.0}, lambda *_: {"cpu_us": 2.0}), ["--json", str(kept)])
    again = _study(lambda *_: {"cpu_us": 3.0}, lambda *_: {"cpu_us": 4.0})
    assert aside.main(again, ["row-1", "--json", str(kept), "--keep"]) == 0
    rows = json.loads(kept.read_text())["rows"]
    assert [rows[row]["steersman"][0]["cpu_us"] for row in ("row-0", "row-1")] == [1.0, 4.0]
    assert aside.main(again, ["--quick", "--json", str(kept), "--keep"]) == 2


@pytest.mark.parametrize(("said", "kept"), [([], True), (["row-0"], False), (["--quick"], False)])
def test_only_a_whole_study_at_full_size_is_kept_without_being_told_where(said, kept, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(aside, "HERE", tmp_path)
    study = _study(lambda *_: {"cpu_us": 1.0}, lambda *_: {"cpu_us": 2.0})
    assert aside.main(study, said) == 0
    assert study.kept.exists() == kept
    assert (f"wrote {study.kept}" in capsys.readouterr().out) == kept


def test_an_environment_gets_what_the_lock_file_says_of_uvloop():
    block = pythons._block("a==1 \\\n    --hash=x\nuvloop==2 \\\n    --hash=y \\\n    --hash=z\nb==3\n", "uvloop")
    assert block == "uvloop==2 \\\n    --hash=y \\\n    --hash=z\n"


def test_a_pod_of_the_stub_agrees_with_itself_before_a_real_server_sees_it():
    resources = {"limits": {"memory": "1Mi"}, "requests": {"memory": "2Mi"}}
    spec = {
        "volumes": [{"name": "config"}, {"name": "token-a"}],
        "containers": [{"resources": resources, "volumeMounts": [{"name": "config"}, {"name": "token-b"}]}],
    }
    real_load._mend(spec)
    assert resources["requests"] == resources["limits"]
    assert [mount["name"] for mount in spec["containers"][0]["volumeMounts"]] == ["config", "token-a"]


class Wires:
    """Stands where the limit's connections do, and keeps what is sent."""

    def __init__(self):
        self.sent = []

    def send(self, data):
        self.sent.append(data)


def _event(kind, generation, observed=0):
    metadata = {"name": "web", "namespace": "shop", "uid": "u-1", "generation": generation}
    status = {"observedGeneration": observed, "phase": "Ready", "readyReplicas": 2, "endpoint": "web.shop.svc:8080"}
    obj = {"metadata": metadata, "spec": {"replicas": 2}, "status": status}
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


@pytest.fixture
def limit(monkeypatch):
    monkeypatch.setattr(httptools_peer, "meter", httptools_peer.Meter())
    return httptools_peer.Limit("Host: x\r\n", "patch")


def test_the_limit_answers_an_update_with_one_patch_of_status(limit):
    wire = Wires()
    limit.writes(wire)
    limit._received(_event("ADDED", 1, observed=1))
    assert wire.sent == []
    update = _event("MODIFIED", 2, observed=1)
    limit._received(update[:40])
    limit._received(update[40:])
    head, _, body = wire.sent.pop().partition(b"\r\n\r\n")
    assert head.startswith(b"PATCH /apis/bench.steersman.dev/v1/namespaces/shop/widgets/web/status HTTP/1.1\r\n")
    assert json.loads(body)["status"]["observedGeneration"] == 2
    assert json.loads(body)["metadata"] == {"uid": "u-1"}


def test_the_limit_does_not_answer_the_echo_of_its_own_patch(limit):
    wire = Wires()
    limit.writes(wire)
    limit._received(_event("ADDED", 2, observed=2) + _event("MODIFIED", 2, observed=2))
    assert wire.sent == []


def test_the_limit_writes_the_newest_state_once_a_connection_is_free(limit):
    limit._received(_event("ADDED", 1) + _event("MODIFIED", 2) + _event("MODIFIED", 3))
    wire = Wires()
    limit.writes(wire)
    limit._write()
    (request,) = wire.sent
    assert b'"observedGeneration":3' in request


def test_the_limit_counts_a_refused_write_as_an_error(limit):
    limit._written(Wires(), 409)
    assert (httptools_peer.meter.errors, httptools_peer.meter.patches) == (1, 0)
