"""The subresources `scale`, `binding` and `eviction`."""
