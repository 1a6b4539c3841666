"""The built-in kinds: what the API server defaults, forbids and remembers about each, one module a family."""
