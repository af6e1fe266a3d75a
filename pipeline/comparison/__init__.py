"""Methods side by side on the same cached embeddings: what a method is, how it is found by name, REFEREE's variants."""
