"""Read and validate the two files that a user writes, params.yaml and suite.yaml."""
