"""HTTP requests, parsed: messages, attributes, query options, selectors, media types, continue tokens, JSON, YAML."""
