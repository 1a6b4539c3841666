"""Benchmarks side by side with controller-runtime and kopf; `python -m benchmarks` runs them."""
