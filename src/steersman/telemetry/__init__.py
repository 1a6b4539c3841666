"""The metrics registry, structured logs and the clock.

It does not depend on Kubernetes; each package declares its own metrics with the functions here.
"""
