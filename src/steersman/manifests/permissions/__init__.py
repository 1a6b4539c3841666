"""The permissions of an operator: derived from its declarations, as RBAC objects, and compared with its requests."""
