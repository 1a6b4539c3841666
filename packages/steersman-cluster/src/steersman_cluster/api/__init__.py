"""The API server: HTTPS for all clients, and a transport in the process for Steersman's own clients.

`APIServer.handle` serves a request from either. Storage, strategies, managed fields, admission and authorization are in
packages of their own.
"""
