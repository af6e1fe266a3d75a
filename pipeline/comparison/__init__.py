"""Compare methods on the same cached embeddings: REFEREE's variants, peers, heads, and the registry of their names."""
