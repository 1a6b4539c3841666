"""Kubernetes' own end-to-end conformance suite, run against the embedded cluster: `python -m tests.e2e`."""
