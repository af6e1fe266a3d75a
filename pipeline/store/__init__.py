"""Zarr stores: written aside and sealed with checksums, checked when opened and read."""
