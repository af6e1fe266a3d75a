"""Frozen image and text encoders: image decoding, preprocessing, timm and open_clip models."""
