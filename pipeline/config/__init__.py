"""The two files that a user writes, params.yaml and suite.yaml: what may stand in them, and reading them."""
