"""Image sets: where the images are, what their classes are called, tasks, splits, manifests."""
