"""Errors of requests to name servers and brokers."""


class RemotingError(Exception):
    """A request to a server of RocketMQ failed."""


class ConnectionClosedError(RemotingError):
    """The connection closed before the response arrived; the server may have handled the request."""


class RequestTimeoutError(RemotingError):
    """The response did not arrive in time; the server may have handled the request."""


class DocumentError(RemotingError):
    """The body or a field of a response does not have the form that the command defines."""


class RefusedError(RemotingError):
    """The server answered with a code other than success.

    Args:
        request: the code of the request.
        code: the code of the response.
        address: the server.
        remark: the message of the server.
    """

    def __init__(self, request: int, code: int, address: str, remark: str) -> None:
        super().__init__(f"{address} refused request {request} with code {code}: {remark[:500] or 'no remark'}")
        self.request = request
        self.code = code
        self.address = address
        self.remark = remark
