"""Every built-in kind of Kubernetes as a model, generated from the API server's OpenAPI and imported when first used."""
