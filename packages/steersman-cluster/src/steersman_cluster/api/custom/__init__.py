"""Custom resources: their definitions, resource types, bodies and conversion."""
