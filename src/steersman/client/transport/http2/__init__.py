"""HTTP/2 for the native transport (RFC 9113, RFC 7541), limited to the features that requests to API servers need.

`frames` and `header_blocks` encode and decode bytes, `stream` is one request, `sender` and `receiver` are the two
halves of a connection, `timeouts` has its timers, `limits` its flood protection, and `connection` joins them.
"""

from steersman.client.transport.http2.connection import DEFAULT_MAX_STREAMS, Http2Connection
from steersman.client.transport.http2.header_blocks import Http2Encoder
from steersman.client.transport.http2.stream import RequestNotSentError

__all__ = ["DEFAULT_MAX_STREAMS", "Http2Connection", "Http2Encoder", "RequestNotSentError"]
