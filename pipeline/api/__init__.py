"""The Python API, of which `pipeline` exports what is public."""
