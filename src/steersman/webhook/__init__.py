"""Admission and conversion webhooks: the server that a cluster asks before it stores an object, and its certificates.

Handlers are declared on the `Operator`; here is what answers. It reviews and never stores: whatever a review changes
leaves as a patch, and what it refuses leaves as a Status.
"""
