"""SPDY/3.1, the server's side, as a pure state machine: what kubectl port-forward speaks in a web socket (KEP-4006).

Only what Kubernetes uses of it: streams with headers, data with half-close, pings, resets. No flow control, because its
clients neither keep windows nor wait for them. Bytes in, events and bytes out; nothing here does I/O.
"""

from steersman_cluster.spdy.session import Closed, Data, Event, Opened, Reset, Session, SpdyError

__all__ = ["Closed", "Data", "Event", "Opened", "Reset", "Session", "SpdyError"]
