"""The end of a log: what a container's termination message falls back to."""

from pathlib import Path

from steersman_cluster.kubelet import STDERR, STDOUT
from steersman_cluster.nodes.process import logfile
from steersman_cluster.nodes.process.logfile import LogFile, last_text


def log(path: Path, *lines: bytes, size: int = 10 << 20) -> Path:
    file = LogFile(path / "0.log", lambda: 1_700_000_000.0, size=size)
    for line in lines:
        file.write(STDERR if b"error" in line else STDOUT, line)
    file.close()
    return path / "0.log"


def test_the_end_of_a_log_is_its_last_lines_of_both_streams(tmp_path: Path) -> None:
    path = log(tmp_path, *(b"line %d\n" % number for number in range(100)), b"error: the end\n")
    text = last_text(path, lines=80, size=2048)
    assert text.startswith(b"line 21\n")
    assert text.endswith(b"line 99\nerror: the end\n")


def test_the_end_of_a_log_is_bounded_in_bytes(tmp_path: Path) -> None:
    path = log(tmp_path, b"a" * 100_000 + b"\n", b"b" * 5000)
    assert last_text(path, lines=80, size=2048) == b"b" * 2048


def test_the_end_of_a_log_that_was_just_rotated_includes_the_older_file(tmp_path: Path) -> None:
    path = log(tmp_path, *(b"line %d\n" % number for number in range(13)), size=300)
    assert path.stat().st_size < 100
    assert last_text(path, lines=6, size=2048) == b"".join(b"line %d\n" % number for number in range(7, 13))


def test_the_end_of_a_long_log_is_read_without_the_rest(tmp_path: Path, monkeypatch) -> None:
    path = log(tmp_path, *(b"%05d " % number * 10 + b"\n" for number in range(20_000)))
    parsed: list[bytes] = []
    line_of = logfile.line_of
    monkeypatch.setattr(logfile, "line_of", lambda record: parsed.append(record) or line_of(record))
    assert last_text(path, lines=80, size=2048).endswith(b"19999 \n")
    assert len(parsed) <= 80


def test_a_log_that_is_not_there_has_no_end(tmp_path: Path) -> None:
    assert last_text(tmp_path / "0.log", lines=80, size=2048) == b""
