"""Datasets: sources of images, class names, tasks, splits, manifests."""
