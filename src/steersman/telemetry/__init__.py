"""What every room measures and says: the metrics registry, structured logging, the clock.

The lowest room. It knows nothing of Kubernetes; each room declares its own metrics with the factories here.
"""
