"""REFEREE as a feature-cache pipeline: frozen embeddings once, source-free continual adaptation in seconds."""
