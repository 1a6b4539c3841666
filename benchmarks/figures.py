"""The figures of the report, each from numbers alone; `plots` says which are drawn and where they go.

Colours are those of Okabe and Ito, which people with colour-blindness tell apart; a marker, a line or a hatch says the
same as the colour. Needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from benchmarks.metrics import LATENCIES, UNITS, name_of, number, quantity, ratio
from benchmarks.report import limit_of
from benchmarks.rows import OURS, Row
from benchmarks.verdicts import Growth, Ratio, Results, Verdict, extremes, main_metrics, values

_INK, _FAINT, _GRID = "#222222", "#6b6b6b", "#e4e4e4"
_HOLDS, _MISSED = "#0072B2", "#D55E00"
_OURS, _THEIRS = "#D55E00", "#0072B2"
_STYLES: tuple[tuple[str, str, str], ...] = (
    ("steersman", "#D55E00", "o"),
    ("controller-runtime", "#0072B2", "s"),
    ("client-go", "#56B4E9", "D"),
    ("kube-rs", "#009E73", "^"),
    ("java-operator-sdk", "#CC79A7", "v"),
    ("kopf", "#E69F00", "P"),
    ("official-client", "#8C6D1F", "X"),
    ("bare", "#000000", "*"),
)
_WIDEST = 2.5
"""Shares of a limit beyond this are cut off in the plot, and told in numbers."""
_VARIANT_LINES = ("-", "--", ":", "-.")
_LATENCY_NAMES = dict(zip(LATENCIES, ("p50", "p99", "p99.9", "max"), strict=True))
_LATENCY_MARKS: dict[str, dict[str, Any]] = {
    "p50_ms": {"marker": "o", "markersize": 6},
    "p99_ms": {"marker": "s", "markersize": 6},
    "p999_ms": {"marker": "D", "markersize": 6},
    "max_ms": {"marker": "|", "markersize": 10, "markeredgewidth": 2},
}

SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "steersman",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


def _style(peer: str, peers: Sequence[str]) -> dict[str, Any]:
    """Colour and marker by the peer, the line by its variant."""
    base = peer.partition("+")[0]
    colour, marker = next(((c, m) for name, c, m in _STYLES if name == base), (_FAINT, "."))
    variant = [other for other in peers if other.partition("+")[0] == base].index(peer)
    return {
        "color": colour,
        "marker": marker,
        "linestyle": _VARIANT_LINES[variant % len(_VARIANT_LINES)],
        "markerfacecolor": colour if variant == 0 else "white",
        "linewidth": 2.2 if base == OURS else 1.4,
        "zorder": 3 if base == OURS else 2,
    }


def growth(panels: Sequence[Growth]) -> Figure:
    """A family of rows: totals against size on logarithmic axes, a line a peer, exponents in the legend."""
    figure = Figure(figsize=(4.6 * len(panels), 3.6), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _growth_panel(axes, panel)
    figure.suptitle(panels[0].family, x=0.01, ha="left", fontweight="bold")
    return figure


def _growth_panel(axes: Any, panel: Growth) -> None:
    unit, scale = _scaled(panel)
    peers = list(panel.points)
    for peer, points in panel.points.items():
        shown = [p for p in points if p.median > 0]
        if not shown:
            continue
        low = [(p.median - max(p.low, p.median * 0.01)) / scale for p in shown]
        high = [(p.high - p.median) / scale for p in shown]
        exponent = panel.exponents.get(peer)
        label = peer + ("" if exponent is None else f"  (exponent {exponent:.2f})")
        style = _style(peer, peers)
        xs, ys = [p.x for p in shown], [p.median / scale for p in shown]
        axes.plot(xs, ys, markersize=5, label=label, **style)
        axes.errorbar(xs, ys, yerr=(low, high), fmt="none", capsize=2.5, elinewidth=1, ecolor=style["color"])
    axes.set(xscale="log", yscale="log", xlabel=panel.x_name, ylabel=f"{name_of(panel.metric)}, {unit}")
    sizes = sorted({p.x for p in max(panel.points.values(), key=len)})
    axes.set_xticks(sizes, [f"{x:,.0f}" for x in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    _plain_log(axes.yaxis)
    axes.grid(visible=True)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), fontsize=8, ncols=1, handlelength=3)


def _scaled(panel: Growth) -> tuple[str, float]:
    largest = max(p.median for points in panel.points.values() for p in points)
    if panel.metric.endswith("_ms"):
        return ("s", 1e3) if largest >= 10_000 else ("ms", 1)
    return ("µs" if panel.metric.endswith("_us") else "MB" if panel.metric.endswith("_mb") else "", 1)


def _plain_log(axis: Any) -> None:
    """Set the ticks of a logarithmic axis to plain numbers: powers of ten, and also 2 and 5 on a narrow axis."""
    low, high = axis.get_view_interval()
    narrow = low > 0 and high / low < 30
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def latencies(results: Results, rows: Sequence[Row]) -> Figure:
    """Event to reconcile: p50, p99, p99.9 and the longest of each peer, one panel a row, on a logarithmic axis."""
    counts = [max(1, len(results["rows"][row.name])) for row in rows]
    figure = Figure(figsize=(7.6, 0.9 * len(rows) + 0.36 * sum(counts)), layout="constrained")
    grid = figure.subplots(len(rows), 1, squeeze=False, height_ratios=[count + 1 for count in counts])
    for (axes,), row in zip(grid, rows, strict=True):
        _latency_panel(axes, results, row)
    handles = [
        Line2D([], [], color=_FAINT, linestyle="", label=_LATENCY_NAMES[metric], **_LATENCY_MARKS[metric])
        for metric in LATENCIES
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), fontsize=8)
    return figure


def _latency_panel(axes: Any, results: Results, row: Row) -> None:
    peers = list(results["rows"][row.name])
    for at, peer in enumerate(peers):
        found = {m: extremes(numbers)[0] for m in LATENCIES if (numbers := values(results, row.name, peer, m))}
        if not found:
            continue
        colour = _style(peer, peers)["color"]
        axes.plot([min(found.values()), max(found.values())], [at, at], color=colour, linewidth=1.6, alpha=0.5)
        for metric, value in found.items():
            axes.plot([value], [at], color=colour, linestyle="", **_LATENCY_MARKS[metric])
    axes.set(xscale="log", xlabel="ms", ylim=(len(peers) - 0.4, -0.6))
    axes.set_yticks(range(len(peers)), peers)
    axes.set_title(f"{row.name}: {row.title}", fontsize=9)
    _plain_log(axes.xaxis)
    axes.grid(visible=True, axis="x")


def absolute(results: Results, rows: Sequence[Row]) -> Figure:
    """The main metric of each row, a bar a peer: the median with its number, and the spread of the runs."""
    counts = [len(results["rows"][row.name]) for row in rows]
    figure = Figure(figsize=(7.6, 0.75 * len(rows) + 0.3 * sum(counts)), layout="constrained")
    grid = figure.subplots(len(rows), 1, squeeze=False, height_ratios=[count + 1 for count in counts])
    for (axes,), row in zip(grid, rows, strict=True):
        metric = _shared_metric(row, results)
        peers = [peer for peer in results["rows"][row.name] if values(results, row.name, peer, metric)]
        for at, peer in enumerate(peers):
            median, low, high = extremes(values(results, row.name, peer, metric))
            axes.barh(at, median, height=0.62, color=_OURS if at == 0 else _THEIRS)
            axes.plot([low, high], [at, at], color=_INK, linewidth=1.2)
            axes.annotate(
                quantity(metric, median), (max(high, 0), at), xytext=(6, 0), textcoords="offset points", va="center",
                fontsize=8,
            )  # fmt: skip
        axes.set_yticks(range(len(peers)), peers)
        axes.set(ylim=(len(peers) - 0.4, -0.6), xlabel=", ".join(filter(None, UNITS.get(metric, (metric, "")))))
        axes.margins(x=0.15)
        axes.set_title(f"{row.name}: {row.title.replace('`', '')}", fontsize=9)
        axes.grid(visible=True, axis="x")
    return figure


def _shared_metric(row: Row, results: Results) -> str:
    """Return the first of the row's main metrics that most peers report."""
    found = main_metrics(row, results)
    runs = [runs[0] for runs in results["rows"][row.name].values()]
    return max(found, key=lambda metric: sum(metric in run for run in runs))


def bars(verdicts: Sequence[Verdict]) -> Figure:
    """Every bar as a share of its limit, so that what ends left of the line holds; the numbers stand beside it."""
    figure = Figure(figsize=(8.6, 0.7 + 0.25 * len(verdicts)), layout="constrained")
    axes = figure.subplots()
    shares = [v.ratio / v.bar.limit for v in verdicts if v.ratio is not None]
    for at, (v, share) in enumerate(zip(verdicts, shares, strict=True)):
        colour, hatch = (_HOLDS, None) if v.holds else (_MISSED, "////")
        axes.barh(at, min(share, _WIDEST), height=0.64, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
        if v.spread:
            ends = [min(end / v.bar.limit, _WIDEST) for end in v.spread]
            axes.plot(ends, [at, at], color=_INK, linewidth=1.2)
        beyond = f" ({share:.1f} times the limit)" if share > _WIDEST else ""
        axes.annotate(
            _numbers_of(v) + beyond, (1, at), xycoords=("axes fraction", "data"), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize=8, color=_INK if v.holds else _MISSED,
        )  # fmt: skip
    axes.axvline(1, color="black", linewidth=1.6)
    axes.set(xlim=(0, min(max(1.1, *shares) * 1.05, _WIDEST)), ylim=(len(verdicts) - 0.4, -0.6))
    axes.set_xlabel("share of the limit (solid: holds, hatched: missed)")
    axes.set_yticks(range(len(verdicts)), [_bar_name(v) for v in verdicts], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x")
    return figure


def _bar_name(v: Verdict) -> str:
    if v.bar.over:
        return f"{v.row.family}: {name_of(v.bar.metric)}, exponent"
    against = f" ÷ {v.bar.against}" if v.bar.against else ""
    return f"{v.row.name}: {name_of(v.bar.metric)}{against}"


def _numbers_of(v: Verdict) -> str:
    assert v.ratio is not None
    if v.bar.over:
        return f"{number(v.ratio)}  ({limit_of(v.bar)})"
    return f"{ratio(v.ratio) if v.bar.against else quantity(v.bar.metric, v.ours)}  ({limit_of(v.bar)})"


def peers_plot(found: Sequence[Ratio]) -> Figure:
    """Ours ÷ each peer, a line a row, on a logarithmic axis: left of 1, ours takes less."""
    names = list(dict.fromkeys(r.row.name for r in found))
    peers = sorted({_as_named(r) for r in found}, key=_order)
    figure = Figure(figsize=(8.2, 1.1 + 0.25 * len(names)), layout="constrained")
    axes = figure.subplots()
    for peer in peers:
        mine = [r for r in found if _as_named(r) == peer]
        style = {**_style(peer, peers), "linestyle": "", "markersize": 7, "markeredgewidth": 1.4}
        axes.plot([r.ratio for r in mine], [names.index(r.row.name) for r in mine], label=peer, **style)
        for r in mine:
            at = names.index(r.row.name)
            axes.plot(list(r.spread), [at, at], color=style["color"], linewidth=1.2, alpha=0.6)
    axes.axvline(1, color="black", linewidth=1.4)
    axes.set(xscale="log", ylim=(len(names) - 0.4, -0.6))
    axes.set_xlabel("ours ÷ peer (left of 1: ours takes less)")
    about = {r.row.name: r.metric for r in found}
    axes.set_yticks(range(len(names)), [f"{name}: {name_of(about[name])}" for name in names], fontsize=8)
    _plain_log(axes.xaxis)
    axes.grid(visible=True)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, handletextpad=0.3)
    return figure


def _as_named(r: Ratio) -> str:
    """The peer without a variant that the row's own name says."""
    base, *variants = r.peer.split("+")
    return "+".join([base, *(variant for variant in variants if not r.row.name.endswith(variant))])


def _order(peer: str) -> tuple[int, str]:
    names = [name for name, _, _ in _STYLES]
    base = peer.partition("+")[0]
    return (names.index(base) if base in names else len(names), peer)
