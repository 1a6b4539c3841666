"""Documents about the server: versions, discovery, OpenAPI and health."""
