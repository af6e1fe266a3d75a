"""Define one compared method per file, found by the names in params.yaml's `compare.methods`."""
