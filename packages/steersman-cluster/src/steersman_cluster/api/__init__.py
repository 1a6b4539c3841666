"""The API server: requests in, answers out, whatever carries them.

`APIServer.handle` is the whole of it; two doors stand before it, HTTPS for anybody's clients and an in-process
transport for Steersman's own. Storage, strategies, managed fields, admission and authorisation are other rooms.
"""
