"""The stages of dvc.yaml, one per module: a function and its declaration (see `pipeline.stage`)."""
