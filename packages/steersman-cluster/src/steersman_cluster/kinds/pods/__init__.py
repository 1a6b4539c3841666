"""Pods, and the Pod templates of other kinds: defaults, validation, warnings, columns."""
