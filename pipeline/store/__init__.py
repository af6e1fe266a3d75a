"""Zarr stores and extraction progress: create, resume, validate, describe."""
