"""The stages of dvc.yaml, one module each: a declaration and the function that does the work (see `pipeline.stage`)."""
