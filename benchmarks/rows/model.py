"""The rows of the benchmark: a measurement, its peers, its sizes, and its bars.

Nothing here measures or judges: measurements are the modules beside this one, verdicts the report's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.harness import Bench

OURS = "steersman"
INTERPRETED = "steersman+interpreted"
"""The same source without what a wheel holds compiled."""
PLAIN = "steersman+asyncio"
"""Without the extra `uvloop`, as `pip install steersman` installs it where there is a compiled wheel."""
INTERPRETED_PLAIN = "steersman+interpreted+asyncio"
"""The same where there is none: the plain wheel, without extras."""
THEIRS = "controller-runtime"
PROTOBUF = "controller-runtime+protobuf"
"""Its default for built-in kinds."""
CLIENT_GO = "client-go"
KUBE_RS = "kube-rs"
JAVA = "java-operator-sdk"
OFFICIAL = "official-client"
KOPF = "kopf"
KOPF_UVLOOP = "kopf+uvloop"
CEILING = ("bare+http1", "bare+http2")
"""Go programs that read and count bytes and decode nothing: what the server can deliver."""

Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Bar:
    """`metric` of `ours` ÷ that of `against` must not exceed `limit`; ours alone when `against` is empty.

    With `over`, the names of rows of one family, `limit` is the largest exponent: the slope of the logarithm of
    `metric`, a total, over that of the rows' `x`.
    """

    metric: str
    limit: float
    against: str = THEIRS
    ours: str = OURS
    over: tuple[str, ...] = ()


@dataclass(frozen=True)
class Size:
    """The size of a load: `objects` exist, `events` happen at `rate` a second (0: saturated).

    The peer runs `controllers`, and is confined to so many `namespaces` (0: all there are).
    """

    kind: str = "widgets"
    objects: int = 0
    events: int = 0
    rate: float = 0.0
    namespaces: int = 0
    controllers: int = 1

    @property
    def options(self) -> dict[str, int | str]:
        """The flags of a peer that say so; those at their default are left out."""
        chosen: dict[str, int | str] = {}
        if self.namespaces:
            chosen["namespaces"] = self.namespaces
        if self.controllers > 1:
            chosen["controllers"] = self.controllers
        return chosen


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    measure: Callable[[Bench, str, Size, int], Numbers]
    full: Size
    quick: Size
    peers: tuple[str, ...] = (OURS, THEIRS)
    bars: tuple[Bar, ...] = ()
    smaller: Mapping[str, Size] = field(default_factory=dict[str, Size])
    """Sizes of peers that would take too long at full size; all numbers are per item."""
    section: str = ""
    """Under which heading the report has it."""
    family: str = ""
    """Rows that differ in `x` alone; the report draws one plot of them."""
    x: float = 0.0
    x_name: str = "objects"
    runs: int = 3
    """The default number of measurements of each peer; the closest calls get more."""
    once: tuple[str, ...] = (JAVA, OFFICIAL, CLIENT_GO)
    """Peers that are measured once in a row without bars; where there are bars, all are that no bar is about."""

    def size(self, peer: str, *, quick: bool) -> Size:
        return self.quick if quick else self.smaller.get(peer, self.full)
