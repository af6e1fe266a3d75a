"""Implementation of the public Python API, which `pipeline` exports."""
