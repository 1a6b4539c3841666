"""Broker groups: the stages Finalize, PreConfig, Sync and Status as pure functions, and their effects."""
