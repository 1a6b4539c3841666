"""The operator room."""
