"""HTTP/2 of the native transport (RFC 9113, RFC 7541): what it takes to talk to API servers, and no more.

`frames` and `blocks` are bytes, `stream` is one request, `sending` and `receiving` are the two halves of a connection,
`patience` its timers, `calm` what it puts up with, and `connection` joins them.
"""

from steersman.client.transport.http2.blocks import Http2Encoder
from steersman.client.transport.http2.connection import MOST_STREAMS, Http2Connection
from steersman.client.transport.http2.stream import RequestNotSentError

__all__ = ["MOST_STREAMS", "Http2Connection", "Http2Encoder", "RequestNotSentError"]
