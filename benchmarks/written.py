"""Puts the report together: report.md with every table and plot, and the bars in the README.

The studies beside the rows (real server, transports, interpreters, the embedded cluster, webhooks) keep their results
in JSON files of their own; each that is there becomes a section.
"""

from __future__ import annotations

import importlib
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import history, quoted
from benchmarks.facts import described
from benchmarks.harness import HERE
from benchmarks.report import (
    across_table,
    bars_table,
    first_line,
    growth_table,
    headroom_lines,
    measured_on,
    numbers_table,
    ratios_table,
    row_lines,
    update_readme,
)
from benchmarks.rows import OURS, Row
from benchmarks.verdicts import MAX_STALL_PERCENT, Results, Verdict, growths, headrooms, ratios, summarise

REAL = "real"
REAL_NOTE = "it sends each event in a TLS record of its own, at the rate that sixteen writers reach."
STUB_NOTE = (
    "it sends what is ready in one record, as fast as it is read. These rows are the limit of what a peer can do; an"
    " operator in a cluster meets the rates and records of the real server."
)
STUDIES = (
    ("transports", "Transports under the whole runtime"),
    ("pythons", "Interpreters"),
    ("webhook", "A mutating webhook"),
    ("embedded", "The embedded cluster beside kube-apiserver"),
)

IMAGE_PAGE = HERE.parent / "docs" / "reference" / "real-node.md"
_IMAGE_ROWS = ("| HelloApp: image", "| HelloApp: start of the container", "| HelloApp: resident memory")


def write_all(results: Results, rows: Sequence[Row], out: Path) -> list[Path]:
    """Write report.md and plots/ into `out`, and the bars into its README where it has one; what was written."""
    out.mkdir(parents=True, exist_ok=True)
    pictures = _plots(results, rows, out / "plots")
    report = out / "report.md"
    report.write_text("\n".join(_report(results, rows, out, pictures)) + "\n")
    written = [report, *pictures]
    readme = out / "README.md"
    if readme.exists() and not results["quick"]:
        update_readme(readme, "\n".join(_summary(results, rows, out)), results)
        written.append(readme)
    if out == HERE and not results["quick"]:
        written += quoted.rewritten()
    print(*(f"wrote {path}" for path in written), sep="\n")
    return written


def _plots(results: Results, rows: Sequence[Row], directory: Path) -> list[Path]:
    try:
        from benchmarks import plots
    except ImportError as missing:
        print(f"no plots: {missing}; they need the dependency group 'bench'")
        return sorted(directory.glob("*.svg"))
    return plots.draw_all(results, rows, directory)


def _summary(results: Results, rows: Sequence[Row], out: Path) -> Iterator[str]:
    """The bars of the real server, then those of the stub."""
    yield from textwrap.wrap(f"With a real kube-apiserver: {REAL_NOTE}", 120)
    yield ""
    kept, study = _kept("real", out), importlib.import_module("benchmarks.real")
    if kept is None:
        yield _not_measured("real")
    else:
        yield from _counted_bars(summarise(kept, study.ROWS))
    yield ""
    yield from textwrap.wrap(f"With the stub server: {STUB_NOTE}", 120)
    yield ""
    yield from _counted_bars(summarise(results, rows))
    yield ""
    yield "Everything: [report.md](report.md)."


def _counted_bars(verdicts: Sequence[Verdict]) -> Iterator[str]:
    held, missed = sum(v.holds is True for v in verdicts), sum(v.holds is False for v in verdicts)
    yield f"{held} bars hold, {missed} are missed, {len(verdicts) - held - missed} could not be judged."
    yield ""
    yield from bars_table(verdicts)


def _report(results: Results, rows: Sequence[Row], out: Path, pictures: Sequence[Path]) -> Iterator[str]:
    names = [path.name for path in pictures if path.suffix == ".svg"]
    yield "# Benchmarks: the report"
    yield ""
    yield "Written by `python -m benchmarks`; how it is measured and what the rows mean: [README.md](README.md)."
    yield "CPU is that of the measured process (user and system). Numbers are medians; in brackets the smallest and"
    yield "largest of the runs, for ratios of the ratio run by run. Below 1, ours takes less. Rows have more runs"
    yield "where the call is close."
    yield ""
    yield measured_on(results)
    yield from _taken(results, rows)
    yield from _study(REAL, "On a real kube-apiserver", out, results["machine"], REAL_NOTE)
    yield from _image(out, results["machine"])
    yield from _section("Bars with the stub server")
    yield from textwrap.wrap(STUB_NOTE[0].upper() + STUB_NOTE[1:], 120)
    yield ""
    yield from _bars(results, rows)
    yield from _pictures(names, "bars", "peers")
    yield from _changes(results)
    for title, members in _sections(rows).items():
        yield from _rows(results, members, title, names)
    if grown := growths(results, rows):
        yield from _section("How it grows")
        yield from growth_table(grown)
        yield from _pictures(names, "growth-")
    for module, title in STUDIES:
        yield from _study(module, title, out, results["machine"])
    yield from _flames(out)


def _section(title: str) -> Iterator[str]:
    yield from ("", f"## {title}", "")


def _taken(results: Results, rows: Sequence[Row]) -> Iterator[str]:
    """Rows that were measured elsewhere, with other versions or fewer runs than asked for."""
    for row in rows:
        how = history.taken(results, row.name)
        other = {k: v for k, v in how["machine"].items() if results["machine"].get(k) != v}
        said = [described(other)] if other else []
        if "asked" in how:
            said.append(f"{how['runs']} of {how['asked']} runs, for want of time")
        said += _stalled(summarise(results, [row]))
        if said and row.name in results["rows"]:
            yield f"\n`{row.name}`: {'; '.join(said)}."


def _stalled(verdicts: Sequence[Verdict]) -> Iterator[str]:
    for stalled, made in dict.fromkeys((v.stalled, len(v.each) + v.stalled) for v in verdicts if v.stalled):
        share = f"{MAX_STALL_PERCENT} % of the time"
        yield f"{stalled} of {made} rounds do not count: the host stalled a side for more than {share}"


def _bars(results: Results, rows: Sequence[Row]) -> Iterator[str]:
    yield from _summary_lines(results, rows)
    yield ""
    yield from bars_table(summarise(results, rows))
    if unmeasured := _unmeasured(results, rows):
        yield ""
        yield from unmeasured


def _summary_lines(results: Results, rows: Sequence[Row]) -> Iterator[str]:
    yield "One line a row:"
    yield ""
    yield "```text"
    yield from row_lines(results, [row for row in rows if row.bars], rows)
    yield "```"


def _unmeasured(results: Results, rows: Sequence[Row]) -> list[str]:
    said = (("could not be measured", results["failed"]), ("not measured", results.get("skipped", {})))
    return [
        f"- {row.name}, {peer}: {what}: {first_line(why)}"
        for what, by_row in said
        for row in rows
        for peer, why in by_row.get(row.name, {}).items()
    ]


def _changes(results: Results) -> Iterator[str]:
    changes = results.get("changes")
    if changes is not None:
        yield from _section("Since the last report")
        yield from (f"- {change}" for change in changes)
        if not changes:
            yield "Nothing changed beyond the spread."


def _sections(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.section or "Rows", []).append(row)
    return found


def _rows(results: Results, rows: Sequence[Row], title: str, pictures: Sequence[str]) -> Iterator[str]:
    measured = [row for row in rows if row.name in results["rows"] or row.name in results["failed"]]
    if not measured:
        return
    yield from _section(title)
    yield from (f"- `{row.name}`: {row.title} ({_runs(results, row)})" for row in measured)
    yield ""
    found = list(ratios(results, measured))
    if found:
        yield from [*ratios_table(found), ""]
    if lines := headroom_lines(headrooms(results, measured)):
        yield from [*(f"- {line}" for line in lines), ""]
    yield from _pictures(pictures, slug(title))
    yield from ["", "<details><summary>Every number</summary>", ""]
    yield from numbers_table(results, [row.name for row in measured])
    yield from ["", "</details>"]


def _runs(results: Results, row: Row) -> str:
    """Return the number of runs by peer, in words."""
    by_count: dict[int, list[str]] = {}
    for peer, runs in results["rows"].get(row.name, {}).items():
        by_count.setdefault(len(runs), []).append(peer)
    if len(by_count) < 2:
        count = next(iter(by_count), 0)
        return f"{count} run{'s' if count != 1 else ''} of each"
    (most, first), *others = sorted(by_count.items(), reverse=True)
    said = [f"{most} runs of {', '.join(first)}", *(f"{count} of {', '.join(peers)}" for count, peers in others)]
    return "; ".join(said)


def slug(title: str) -> str:
    """A heading as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _pictures(names: Sequence[str], *prefixes: str) -> Iterator[str]:
    for name in names:
        if any(name.removesuffix(".svg") == p or (p.endswith("-") and name.startswith(p)) for p in prefixes):
            alt = name.removesuffix(".svg").replace("-", " ")
            yield ""
            yield f"![{alt}](plots/{name})"


def _image(out: Path, known: dict[str, str]) -> Iterator[str]:
    """The study of the image; without it the rows that the tests on a real node have measured."""
    if _kept("image", out) is not None:
        yield from _study("image", "In the image, on a real node", out, known)
        return
    rows = [line for line in IMAGE_PAGE.read_text().splitlines() if line.startswith(_IMAGE_ROWS)]
    yield from _section("In the image, on a real node")
    yield "From [the measurements on a real node](../docs/reference/real-node.md), which say on what machine."
    yield from ("", "| what | measured | objective |", "|---|---|---|", *rows)


def _kept(name: str, out: Path) -> Results | None:
    return history.load(out / f"{name}.json") or history.load(HERE / f"{name}.json")


def _not_measured(name: str) -> str:
    return f"Not measured here: `python -m benchmarks.{name} --json benchmarks/{name}.json`."


def _study(name: str, title: str, out: Path, known: dict[str, str], note: str = "") -> Iterator[str]:
    kept = _kept(name, out)
    yield from _section(title)
    if note:
        yield from (note[0].upper() + note[1:], "")
    if kept is None:
        yield _not_measured(name)
        return
    study = importlib.import_module(f"benchmarks.{name}")
    rows: Sequence[Row] = study.ROWS
    measured = [row for row in rows if row.name in kept["rows"] or row.name in kept["failed"]]
    pictures = _study_plot(name, kept, rows, out / "plots")
    said = list(study.words(kept)) if hasattr(study, "words") else []
    told = {name: fact for name, fact in kept["machine"].items() if any(fact in sentence for sentence in said)}
    yield measured_on(kept, {**known, **told})
    yield ""
    yield from (f"- `{row.name}`: {row.title} ({_runs(kept, row)})" for row in measured)
    if said:
        yield from ["", *(f"- {sentence}" for sentence in said)]
    if any(row.bars for row in rows):
        yield from ["", *bars_table(summarise(kept, rows))]
    if all(OURS not in kept["rows"].get(row.name, {}) for row in measured):
        yield from ["", "In brackets: the ratio to the first column.", "", *across_table(kept, rows)]
    elif found := list(ratios(kept, rows)):
        yield from ["", *ratios_table(found)]
    yield from _pictures([path.name for path in pictures if path.suffix == ".svg"], "study-")
    yield from ["", "<details><summary>Every number</summary>", ""]
    yield from numbers_table(kept, list(dict.fromkeys([*kept["rows"], *kept["failed"], *kept.get("skipped", {})])))
    yield from ["", "</details>"]


def _study_plot(name: str, kept: Results, rows: Sequence[Row], directory: Path) -> list[Path]:
    try:
        from benchmarks import plots
    except ImportError:
        return sorted(directory.glob(f"study-{name}.*"))
    return plots.draw_study(name, kept, rows, directory)


def _flames(out: Path) -> Iterator[str]:
    found = sorted((out / "plots").glob("*flame*.svg"))
    if found:
        yield from _section("Where the time goes")
        yield "Open the picture itself to read the frames that are too narrow here."
        for path in found:
            yield ""
            yield f"[![{path.stem.replace('-', ' ')}](plots/{path.name})](plots/{path.name})"
