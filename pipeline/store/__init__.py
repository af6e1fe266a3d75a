"""Zarr stores: written to a temporary folder and sealed with checksums, which are verified on opening and reading."""
