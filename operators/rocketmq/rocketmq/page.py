"""A read-only web page of the operator: Brokers, their groups and masters, and the lag of consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape

from steersman import Key
from steersman.operator import Address, Answer, Route, ThreadServer, Visit

from rocketmq.brokers.observation import GroupState
from rocketmq.metrics import BrokerSamples

__all__ = ["ADDRESS_VARIABLE", "page", "serve_page"]

ADDRESS_VARIABLE = "ROCKETMQ_PAGE_ADDRESS"
"""The environment variable with the address of the page, such as `127.0.0.1:8090`; without it the page is off."""
REFRESH_SECONDS = 5
MAX_LAG_ROWS = 100
"""Most consumer groups and topics of a Broker on the page; the page shows those with the largest lag."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1a1a1a }
h2 { margin: 2rem 0 .5rem } table { border-collapse: collapse; width: 100%; margin-bottom: 1rem }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd }
.bad { color: #a40000; font-weight: 600 } p.note { color: #555 }
"""

Samples = Sequence[tuple[Key, BrokerSamples]]


def page(brokers: Samples) -> str:
    """Return the page as HTML; all values are escaped."""
    content = "".join(_broker(key, samples) for key, samples in brokers)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>RocketMQ</title>'
        f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}"><style>{STYLE}</style></head>'
        f"<body><h1>RocketMQ</h1>{content or '<p class=note>There is no Broker.</p>'}</body></html>"
    )


def _broker(key: Key, samples: BrokerSamples) -> str:
    groups = _table(
        ("Group", "Master", "In sync", "Version", "Messages per second", "Disk"), map(_group, samples.groups)
    )
    rows = sorted(samples.lag.items(), key=lambda item: (-item[1], item[0]))
    lag = _table(
        ("Consumer group", "Topic", "Not read"),
        ((_cell(group), _cell(topic), _cell(str(count))) for (group, topic), count in rows[:MAX_LAG_ROWS]),
    )
    hidden = len(rows) - MAX_LAG_ROWS
    more = f'<p class="note">{hidden} rows with a smaller lag are not shown.</p>' if hidden > 0 else ""
    return f"<section><h2>{escape(key.namespace)}/{escape(key.name)}</h2>{groups}{lag if rows else ''}{more}</section>"


def _group(group: GroupState) -> tuple[str, ...]:
    master = group.master
    present, whole = len(group.synchronous), len(group.members)
    return (
        _cell(str(group.index)),
        _cell(f"member {master.member.index}" if master is not None else "none", bad=master is None),
        _cell(f"{present} of {whole}", bad=present < whole),
        _cell(master.version if master is not None else ""),
        _cell(f"{master.put_tps:.0f}" if master is not None else ""),
        _cell(f"{master.disk_percent:.0f} %" if master is not None else ""),
    )


def _cell(text: str, *, bad: bool = False) -> str:
    return f'<td class="bad">{escape(text)}</td>' if bad else f"<td>{escape(text)}</td>"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def serve_page(address: Address, brokers: Callable[[], Samples]) -> ThreadServer:
    """Serve the page at `/` until the server is closed.

    Raises:
        BindError: the address cannot be used.
    """

    def answer(_: Visit) -> Answer:
        return Answer(200, page(brokers()).encode(), "text/html; charset=utf-8", HEADERS)

    routes: dict[str, Route] = {"/": answer}
    return ThreadServer(address, routes, name="page", setting=ADDRESS_VARIABLE)
