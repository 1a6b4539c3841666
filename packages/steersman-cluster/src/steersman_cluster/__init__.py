"""A Kubernetes cluster in one process: API server, built-in controllers and nodes, for development and tests.

What `pip install` gives instead of Docker: any client (kubectl, client-go, the official Python client) speaks to it
over TLS, and Steersman's own clients also without a socket. It is held to the real kube-apiserver by one conformance
suite that runs on both. It is a development and test tool; production is a real cluster.
"""
